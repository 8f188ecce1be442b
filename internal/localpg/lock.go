//go:build unix

package localpg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
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

// postmasterTimeout bounds the wait for a server that runs in the cluster although the lock is
// free, because somebody started it by hand.
const postmasterTimeout = 60 * time.Second

// awaitPostmaster waits until no server runs in the cluster and removes a stale postmaster.pid.
// PostgreSQL checks that file too, but only whether the process id exists. After a container
// restart, an unrelated process may well have that id.
func (p place) awaitPostmaster(ctx context.Context, log *slog.Logger) error {
	deadline := time.Now().Add(postmasterTimeout)
	for told := false; ; told = true {
		pid, live := p.livePostmaster()
		if !live {
			break
		}
		if !told {
			log.Info("waiting for another PostgreSQL server to end", "process", pid, "directory", p.cluster())
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("another PostgreSQL server, process %d, runs in %s and was not started by this program: stop it, or choose another data directory", pid, p.cluster())
		}
		if !flow.Sleep(ctx, retryEvery) {
			return context.Cause(ctx)
		}
	}
	err := os.Remove(filepath.Join(p.cluster(), "postmaster.pid"))
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("clear the process id of a server that is gone: %w", err)
	}
	return nil
}

// postmasterFile reads the lines of postmaster.pid, which PostgreSQL keeps while
// the server runs.
func (p place) postmasterFile() []string {
	text, err := os.ReadFile(filepath.Join(p.cluster(), "postmaster.pid"))
	if err != nil {
		return nil
	}
	return strings.Split(string(text), "\n")
}

// isReady reports whether postmaster.pid says that the server accepts connections. Testing that by
// connecting would leave a line in the server's log for each failure.
func (p place) isReady() bool {
	const status = 7 // the line, counted from 0
	lines := p.postmasterFile()
	return len(lines) > status && strings.TrimSpace(lines[status]) == "ready"
}

// livePostmaster reads postmaster.pid and reports whether that process is alive and really is a
// server of this cluster.
func (p place) livePostmaster() (pid int, live bool) {
	lines := p.postmasterFile()
	if len(lines) == 0 {
		return 0, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 0 || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return 0, false
	}
	// A postmaster's working directory is its cluster.
	if cwd, err := os.Stat(fmt.Sprintf("/proc/%d/cwd", pid)); err == nil {
		cluster, err := os.Stat(p.cluster())
		return pid, err == nil && os.SameFile(cwd, cluster)
	}
	name, err := exec.Command("ps", "-p", strconv.Itoa(pid), "-o", "comm=").Output()
	if err != nil {
		return pid, true // not known: PostgreSQL's own check decides
	}
	return pid, strings.Contains(string(name), "postgres")
}

// stopOrphan asks a killed owner's server to shut down. On Linux the kernel has already done so. It
// checks the owner again after it has found the server: a new owner writes its id into the lock
// before it starts a server, so if the lock still names a dead process, the server is that
// process's.
func (p place) stopOrphan() {
	if !p.ownerIsDead() {
		return
	}
	if server, live := p.livePostmaster(); live && p.ownerIsDead() {
		_ = syscall.Kill(server, syscall.SIGINT)
	}
}

func (p place) ownerIsDead() bool {
	owner := p.owner()
	return owner != 0 && errors.Is(syscall.Kill(owner, 0), syscall.ESRCH)
}
