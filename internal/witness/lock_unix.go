//go:build unix

package witness

import (
	"fmt"
	"os"
	"syscall"

	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
)

// Lock keeps other witnesses from the same folder, until unlock is called or the process
// ends.
func Lock(dir *datadir.Dir) (unlock func(), err error) {
	file, err := dir.OpenFile("lock", os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("another witness runs with the state %s: %w", dir.Name(), err)
	}
	return func() {
		// A process that is being started has the open file too, for a moment: closing it here
		// alone would leave it locked.
		_ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
		_ = file.Close()
	}, nil
}
