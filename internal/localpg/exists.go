//go:build unix

package localpg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Exists tells whether a data directory has the data of a server, and changes nothing.
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

// Directory is the data directory that a server really uses: started by root, it may be
// another one than it was given. It changes nothing.
func Directory(dataDir string) (string, error) {
	p, err := defaultOptions().roots.resolve(dataDir)
	return p.dir, err
}
