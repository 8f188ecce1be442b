//go:build linux || darwin

package datadir

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Free returns how many bytes an account without special rights can still write to the file system
// of a directory.
func Free(path string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, fmt.Errorf("statfs: %w", err)
	}
	return int64(s.Bavail * uint64(s.Bsize)), nil
}
