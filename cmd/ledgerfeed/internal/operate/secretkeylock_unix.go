//go:build unix

package operate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
)

// LockSecretKeys keeps other rotations from the file in the data directory, until unlock is called
// or the process ends. Each of them reads the file, and later writes what it has made of it. Without
// the directory there is no file to lose, and a rotation that is refused leaves none behind.
func (e *Env) LockSecretKeys(db *Database) (unlock func(), err error) {
	path := db.DataDir(e.Settings.DataDir)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	dir, err := datadir.Make(path)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the keys for webhooks' secrets: %w", err)
	}
	file, err := dir.OpenFile(secretKeyName+".lock", os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot lock the keys for webhooks' secrets: %w", err), dir.Close())
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_, _ = file.Close(), dir.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another rotation of the keys in %s is under way: run this again when it has ended", path)
		}
		return nil, fmt.Errorf("cannot lock the keys for webhooks' secrets: %w", err)
	}
	return func() {
		// A process that is being started has the open file too, for a moment: closing it here
		// alone would leave it locked.
		_ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
		_, _ = file.Close(), dir.Close()
	}, nil
}
