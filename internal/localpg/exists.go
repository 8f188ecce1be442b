//go:build unix

package localpg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Exists reports whether a data directory holds a server's data. It changes nothing.
func Exists(dataDir string) (bool, error) {
	p, err := defaultOptions().roots.resolve(dataDir)
	if err != nil {
		return false, err
	}
	_, err = os.Stat(p.cluster())
	if err == nil {
		return true, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return false, fmt.Errorf("look for the data of PostgreSQL: %w", err)
}

// Directory returns the data directory that a server would really use. For root it may differ from
// dataDir (see [Server.DataDir]). It changes nothing.
func Directory(dataDir string) (string, error) {
	p, err := defaultOptions().roots.resolve(dataDir)
	return p.dir, err
}
