//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// diskSize is of the file system that holds PostgreSQL's data where one can be
// mounted, in bytes: enough for a primary, a replica and a backup.
const diskSize = 10 << 30

// disk is where PostgreSQL's data is: a file system of its own in memory for root,
// so that it can be full, and otherwise a directory.
type disk struct {
	dir     string
	mounted bool
}

func newDisk(dir string) (*disk, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	d := &disk{dir: dir}
	if os.Geteuid() == 0 {
		err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=755", diskSize))
		d.mounted = err == nil // in containers even root may not
	}
	return d, nil
}

func (d *disk) close() error {
	if !d.mounted {
		return nil
	}
	if err := unix.Unmount(d.dir, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("cannot unmount %s: %w", d.dir, err)
	}
	return nil
}

// CanFill tells whether PostgreSQL's data has a disk of its own that can be filled.
func (c *Cluster) CanFill() bool { return c.disk.mounted }

// FillDisk leaves PostgreSQL so many bytes of free space: the file system is made
// smaller, so that nothing has to be written for that.
func (c *Cluster) FillDisk(leave int64) error {
	if !c.disk.mounted {
		return errors.New("cannot fill the disk: it is not one of PostgreSQL's own")
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(c.disk.dir, &fs); err != nil {
		return fmt.Errorf("cannot measure the free space: %w", err)
	}
	return c.disk.resize(int64(fs.Blocks-fs.Bfree)*fs.Bsize + leave)
}

// EmptyDisk ends FillDisk.
func (c *Cluster) EmptyDisk() error { return c.disk.resize(diskSize) }

func (d *disk) resize(bytes int64) error {
	if err := unix.Mount("tmpfs", d.dir, "tmpfs", unix.MS_REMOUNT, fmt.Sprintf("size=%d,mode=755", bytes)); err != nil {
		return fmt.Errorf("cannot change the size of the disk: %w", err)
	}
	return nil
}
