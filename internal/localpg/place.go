package localpg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Names inside a data directory.
const (
	clusterName    = "pgdata"
	newClusterName = "pgdata.new"
	lockName       = "keeper.lock"
	keeperSockName = "keeper.sock"
	keeperLogName  = "keeper.log"
	serverLogName  = "postgres.log"
	runName        = "run"
	socketsAtName  = "sockets-at"
)

// place is a data directory after all questions of paths and accounts have
// been answered.
type place struct {
	Wanted  string  `json:"wanted"`  // what the caller asked for, absolute
	Dir     string  `json:"dir"`     // what is used
	Sockets string  `json:"sockets"` // Dir, or a short directory if Dir's path is too long for sockets
	Account account `json:"account"` // whom the server runs as
	// Programs is where downloaded server programs are kept if the user's own
	// cache does not serve.
	Programs string `json:"programs"`
	// Owner owns the keeper's files. It is the owner of Dir and not always this
	// process: root working in a user's directory must not lock that user out.
	Owner account `json:"owner"`
}

func (p place) file(name string) string { return filepath.Join(p.Dir, name) }
func (p place) cluster() string         { return p.file(clusterName) }
func (p place) listenPath() string      { return filepath.Join(p.Sockets, keeperSockName) }
func (p place) runDir() string          { return filepath.Join(p.Sockets, runName) }

// tryLock makes the data directory if need be and takes its lock. It returns
// no file if another process holds it.
func (p place) tryLock() (*os.File, error) {
	if err := makeDirs(p.Dir, p.dirMode()); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	lock, err := p.openFile(lockName, os.O_RDWR)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the data directory: %w", err)
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil {
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, fmt.Errorf("lock %s: %w", p.file(lockName), err)
	}
	// Between open and lock a keeper may have removed the file (RemoveOnStop);
	// then this lock guards nothing.
	held, err1 := lock.Stat()
	named, err2 := os.Lstat(p.file(lockName))
	if err1 != nil || err2 != nil || !os.SameFile(held, named) {
		_ = lock.Close()
		return nil, nil //nolint:nilerr // gone is no failure: the caller tries again
	}
	return lock, nil
}

// dirMode is the mode of directories for the keeper's files. Root must let the
// server's account pass through; everything of worth inside has mode 0700.
func (p place) dirMode() fs.FileMode {
	if p.Account.other() {
		return 0o711
	}
	return 0o700
}

// openFile opens or creates one of the keeper's files. It does not follow a
// symbolic link: root may be working in a directory that another account owns.
func (p place) openFile(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(p.file(name), flag|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if p.Owner.other() {
		if err := f.Chown(p.Owner.UID, p.Owner.GID); err != nil {
			_ = f.Close()
			return nil, err
		}
	}
	return f, nil
}

// serverDir makes a directory that only the server's account may enter, or
// checks that it is one.
func (p place) serverDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil && p.Account.other() {
		return os.Lchown(dir, p.Account.UID, p.Account.GID)
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	return privateDir(dir, p.Account.UID)
}

// privateDir says what is wrong with a directory that should be uid's alone.
func privateDir(dir string, uid int) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is in the way: it is not a directory", dir)
	}
	if owner, _ := ownerOf(info); owner != uid {
		return fmt.Errorf("%s belongs to uid %d, not to uid %d", dir, owner, uid)
	}
	if perm := info.Mode().Perm(); perm != 0o700 {
		return fmt.Errorf("%s has mode %04o; it must have 0700", dir, perm)
	}
	return nil
}

// maxSocketDir leaves room for "/run/.s.PGSQL.5432" within the 104 bytes that
// macOS, the stricter system, allows for a socket's path.
const maxSocketDir = 84

// keeperSocket is where users join. The record is read anew each time, because
// whoever starts the keeper decides it.
func (p place) keeperSocket() string {
	if fitsSockets(p.Dir) {
		return p.file(keeperSockName)
	}
	at, err := os.ReadFile(p.file(socketsAtName))
	if err != nil {
		return p.file(keeperSockName) // nobody has started a keeper here yet
	}
	return filepath.Join(strings.TrimSpace(string(at)), keeperSockName)
}

// fitsSockets tells whether sockets can be made below dir, and named in a URL
// and in PostgreSQL's list of socket directories.
func fitsSockets(dir string) bool {
	return len(dir) <= maxSocketDir && !strings.ContainsAny(dir, ",\"'\\\n")
}

// settleSockets decides where the sockets are. The caller holds the lock.
func (p place) settleSockets() (place, error) {
	p.Sockets = p.Dir
	if fitsSockets(p.Dir) {
		return p, nil
	}
	if at, err := os.ReadFile(p.file(socketsAtName)); err == nil {
		// Left by a keeper that was killed. Anybody may have made something of
		// that name in /tmp since, so it is used only if it is still ours.
		old := strings.TrimSpace(string(at))
		info, err := os.Lstat(old)
		if err == nil && info.IsDir() && info.Mode().Perm() == p.dirMode() {
			if uid, _ := ownerOf(info); uid == p.Owner.UID {
				p.Sockets = old
				return p, nil
			}
		}
	}
	dir, err := os.MkdirTemp("/tmp", "ledgerfeed-")
	if err != nil {
		return p, fmt.Errorf("make a short directory for sockets (%s is too long a path): %w", p.Dir, err)
	}
	p.Sockets = dir
	if err := os.Chmod(dir, p.dirMode()); err != nil {
		return p, err
	}
	record, err := p.openFile(socketsAtName, os.O_WRONLY|os.O_TRUNC)
	if err != nil {
		return p, fmt.Errorf("record where the sockets are: %w", err)
	}
	if p.Owner.other() { // a user's directory: the user must reach the sockets too
		err = os.Lchown(dir, p.Owner.UID, p.Owner.GID)
	}
	_, werr := record.WriteString(dir + "\n")
	if err := errors.Join(err, werr, record.Close()); err != nil {
		return p, fmt.Errorf("record where the sockets are: %w", err)
	}
	return p, nil
}

// dropSockets undoes settleSockets when the server has stopped.
func (p place) dropSockets() {
	_ = os.Remove(filepath.Join(p.Sockets, keeperSockName))
	if p.Sockets != p.Dir {
		_ = os.Remove(p.runDir())
		_ = os.Remove(p.Sockets)
		_ = os.Remove(p.file(socketsAtName))
	}
}

// removeAll deletes what the keeper and the server made, and the directory if
// nothing else is in it: RemoveOnStop must never reach a stranger's file.
func (p place) removeAll() error {
	var errs []error
	for _, name := range []string{clusterName, newClusterName, runName, serverLogName, serverLogName + ".1", keeperLogName, lockName} {
		errs = append(errs, os.RemoveAll(p.file(name)))
	}
	if err := os.Remove(p.Dir); err != nil && !errors.Is(err, syscall.ENOTEMPTY) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// lockHolder names, for an error, the process recorded in the lock file.
func lockHolder(p place) string {
	pid, err := os.ReadFile(p.file(lockName))
	if s := strings.TrimSpace(string(pid)); err == nil && s != "" {
		return "keeper process " + s
	}
	return "keeper process unknown"
}
