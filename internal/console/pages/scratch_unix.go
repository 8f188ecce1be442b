//go:build unix

package pages

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks a directory until it is closed; false without an error: another process has locked it.
func tryLock(dir *os.File) (locked bool, err error) {
	err = syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err //nolint:wrapcheck // lockScratch names the directory
}
