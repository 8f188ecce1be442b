//go:build unix

package localpg

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
)

// lock is the lock of a data directory, held by this process.
type lock struct {
	dir  *datadir.Dir
	file *os.File
}

// tryLock makes the data directory if need be, takes its lock and writes this
// process's id into it. It returns nil if another process holds the lock.
func (p place) tryLock() (*lock, error) {
	dir, err := datadir.Make(p.dir)
	if err != nil {
		return nil, err
	}
	file, err := dir.OpenFile(lockName, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the lock of the data directory %s: %w", p.dir, err), dir.Close())
	}
	l := &lock{dir, file}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, l.release()
	}
	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the data directory %s: %w", p.dir, err), l.release())
	}
	return l, nil
}

// release closes the lock file. The lock stays taken while server processes, which inherit the
// file, have it open.
func (l *lock) release() error { return errors.Join(l.file.Close(), l.dir.Close()) }

// owner returns the process id in the lock file: the lock's holder, or a killed owner whose server
// still runs. 0: the file has no process id.
func (p place) owner() int {
	text, err := os.ReadFile(p.file(lockName))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil {
		return 0
	}
	return pid
}
