package localpg

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// maxLogSize is when a log file makes room, at a start, for a new one.
const maxLogSize = 8 << 20

// spawnKeeper executes this binary again as the keeper of job.Place. The
// keeper inherits the lock and one end of a pair of sockets, which makes this
// process its first user from birth: there is no moment in which the keeper has
// nobody, and none in which the directory is unlocked.
func spawnKeeper(lock *os.File, job assignment) (net.Conn, int, error) {
	fail := func(err error) (net.Conn, int, error) {
		return nil, 0, fmt.Errorf("start the keeper of the local PostgreSQL in %s: %w", job.Place.Dir, err)
	}
	mine, its, err := socketPair()
	if err != nil {
		return fail(err)
	}
	defer its.Close()
	conn, err := net.FileConn(mine) // duplicates the descriptor
	_ = mine.Close()
	if err != nil {
		return fail(err)
	}
	log, err := openLog(job.Place, keeperLogName)
	if err != nil {
		_ = conn.Close()
		return fail(err)
	}
	defer log.Close()
	self, err := selfPath()
	if err != nil {
		_ = conn.Close()
		return fail(err)
	}
	cmd := &exec.Cmd{
		Path:        self,
		Args:        []string{"ledgerfeed-keeper", job.Place.Dir}, // what ps shows
		Env:         keeperEnviron(),
		Dir:         job.Place.Dir,
		Stdout:      log,
		Stderr:      log,
		ExtraFiles:  []*os.File{lock, its}, // keeperLockFD, keeperUserFD
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		_ = conn.Close()
		return fail(err)
	}
	pid := cmd.Process.Pid
	// Whoever sees the keeper end reaps it by its number: that may be another
	// Server of this process, much later.
	_ = cmd.Process.Release()
	if err := writeLine(conn, job); err != nil {
		_ = conn.Close()
		reap(pid)
		return fail(err)
	}
	return conn, pid, nil
}

// keeperEnviron is the caller's environment, which npm may need (proxies, a
// home), without the variables that steer PostgreSQL's clients.
func keeperEnviron() []string {
	env := []string{keeperEnv + "=1"}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PG") {
			env = append(env, v)
		}
	}
	return env
}

// socketPair is a connected pair that no other child inherits.
func socketPair() (mine, its *os.File, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	return os.NewFile(uintptr(fds[0]), "user"), os.NewFile(uintptr(fds[1]), "keeper"), nil
}

// openLog opens a log for appending and puts a grown one aside first.
func openLog(p place, name string) (*os.File, error) {
	if info, err := os.Lstat(p.file(name)); err == nil && info.Size() > maxLogSize {
		if err := os.Rename(p.file(name), p.file(name+".1")); err != nil {
			return nil, fmt.Errorf("put the old log aside: %w", err)
		}
	}
	return p.openFile(name, os.O_WRONLY|os.O_APPEND)
}

// recordKeeper writes the keeper's process id into the lock file, for people
// and for stopOrphan.
func recordKeeper(lock *os.File) error {
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err := lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}
