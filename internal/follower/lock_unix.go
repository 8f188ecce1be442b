//go:build unix

package follower

import (
	"fmt"
	"os"
	"syscall"
)

// Lock keeps other followers away from the same place until unlock is called or the process ends.
// It locks a file next to the state, because the state file is replaced at every page.
func (p Place) Lock() (unlock func(), err error) {
	if p.Name == "" {
		return func() {}, nil
	}
	file, err := os.OpenFile(p.Name+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("another process follows with the state %s: %w", p.Name, err)
	}
	return func() {
		// A child that is just being started also has the file open, so closing it here alone would
		// leave the lock taken.
		_ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
		_ = file.Close()
	}, nil
}
