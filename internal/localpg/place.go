//go:build unix

package localpg

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Names inside a data directory.
const (
	clusterName    = "pgdata"
	newClusterName = "pgdata.new"
	lockName       = "server.lock"
	serverLogName  = "postgres.log"
	hbaName        = "pg_hba.conf"
	identName      = "pg_ident.conf"
	runName        = "run"
)

// place is a data directory whose paths and accounts are resolved.
type place struct {
	wanted   string  // what the caller asked for, absolute
	dir      string  // the directory really used
	account  account // the account and group that the server runs as
	programs string  // where downloaded server programs go if the user's own cache cannot be used
}

func (p place) file(name string) string { return filepath.Join(p.dir, name) }
func (p place) cluster() string         { return p.file(clusterName) }
func (p place) runDir() string          { return filepath.Join(p.sockets(), runName) }

// maxSocketDir leaves room for "/run/.s.PGSQL.5432" within the 104 bytes that
// macOS, the stricter system, allows for a socket's path.
const maxSocketDir = 84

// sockets returns the parent of the socket directory: the data directory, or a directory in /tmp if
// a socket's path, a URL or PostgreSQL's list of socket directories cannot name the data directory.
func (p place) sockets() string {
	if len(p.dir) <= maxSocketDir && !strings.ContainsAny(p.dir, ",\"'\\\n") {
		return p.dir
	}
	return fmt.Sprintf("/tmp/ledgerfeed-%x", sha256.Sum256([]byte(p.dir)))[:32]
}

// url is the address of this place's server.
func (p place) url() string {
	host := strings.ReplaceAll(url.QueryEscape(p.runDir()), "+", "%20") // libpq does not read "+" as a space
	// Without this empty parameter, PGOPTIONS would apply.
	return "postgres://" + databaseName + "@/" + databaseName + "?host=" + host + "&port=5432&sslmode=disable&options=&requirepeer=" + url.QueryEscape(p.account.name)
}

// prepare makes the directories and the authentication rules for a server that is about to start.
// The caller holds the lock.
func (p place) prepare(dir *datadir.Dir) error {
	if err := p.admitServer(dir); err != nil {
		return err
	}
	if p.sockets() != p.dir {
		short, err := datadir.Make(p.sockets())
		if err != nil {
			return fmt.Errorf("make a short directory for the socket (the path %s is too long for it, or has characters that it may not have): %w", p.dir, err)
		}
		defer func() { _ = short.Close() }()
		if err := p.admitServer(short); err != nil {
			return err
		}
	}
	if err := p.serverDir(p.runDir()); err != nil {
		return err
	}
	return p.writeRules(dir)
}

// admitServer lets the server's account enter a directory through its private group.
func (p place) admitServer(dir *datadir.Dir) error {
	if !p.account.other() {
		return nil
	}
	if err := dir.Chown(".", os.Geteuid(), p.account.gid); err != nil {
		return err
	}
	return dir.Chmod(".", 0o710)
}

// serverDir makes a directory that only the server's account may enter, or
// checks that it is one.
func (p place) serverDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil && p.account.other() {
		return os.Lchown(dir, p.account.uid, p.account.gid)
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if owner, _ := datadir.OwnerOf(info); !info.IsDir() || owner != p.account.uid || info.Mode().Perm() != 0o700 {
		return fmt.Errorf("%s must be a directory of the account %s with mode 0700, but it belongs to %s and has mode %v: remove it", dir, p.account.name, datadir.AccountName(owner), info.Mode())
	}
	return nil
}

// writeRules writes who may connect to the server: only the account that starts it, identified
// through the socket (peer), and only as the one role. PostgreSQL refuses everything that no rule
// allows.
func (p place) writeRules(dir *datadir.Dir) error {
	self := `"` + strings.ReplaceAll(datadir.AccountName(os.Geteuid()), `"`, `""`) + `"`
	for name, rules := range map[string]string{
		hbaName:   "local all all peer map=ledgerfeed\n",
		identName: "ledgerfeed " + self + " " + databaseName + "\n",
	} {
		if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		file, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
		if err != nil {
			return err
		}
		if p.account.other() {
			err = errors.Join(file.Chown(os.Geteuid(), p.account.gid), file.Chmod(0o640))
		}
		_, werr := file.WriteString("# Written at each start of the server; changes are lost.\n" + rules)
		if err := errors.Join(err, werr, file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// command returns a command that runs under the server's account. Its environment is our own, so
// that the caller's PGDATA or PGPORT has no effect.
func (p place) command(ctx context.Context, path string, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = p.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if p.account.other() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(p.account.uid), Gid: uint32(p.account.gid)}
	}
	return cmd
}

// tailSize is how much of a log an error quotes, in bytes.
const tailSize = 3 << 10

// fileTail returns the end of a text file, but nothing before offset start. It is for error
// messages, so it never fails: if it cannot read the file, it returns the reason.
func fileTail(path string, start int64) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	text = text[min(start, int64(len(text))):]
	return string(bytes.TrimSpace(text[max(0, len(text)-tailSize):]))
}

// maxLogSize is the size, in bytes, above which a start renames the old log.
const maxLogSize = 8 << 20

// openLog opens the server's log for appending.
func openLog(dir *datadir.Dir) (*os.File, error) {
	if info, err := dir.Lstat(serverLogName); err == nil && info.Size() > maxLogSize {
		if err := dir.Rename(serverLogName, serverLogName+".1"); err != nil {
			return nil, fmt.Errorf("put the old log aside: %w", err)
		}
	}
	return dir.OpenFile(serverLogName, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
}

// leastFree is the space, in bytes, without which a disk counts as full. The server's log is on that
// disk too, so it may lack the line that says so.
const leastFree = 1 << 20

// explainDisk makes err, how the server ended or failed to start, a *DiskFullError if the disk is
// full. An err with another cause stays as it is.
func (p place) explainDisk(err error) error {
	var known *DiskFullError
	if errors.As(err, &known) {
		return known
	}
	free, unknown := datadir.Free(p.dir)
	told := errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "No space left on device") // in the log's end
	if told || unknown == nil && free < leastFree {
		return &DiskFullError{DataDir: p.dir, Free: free, Err: err}
	}
	return err
}

var errNotReady = errors.New("the server is not ready")

// connect opens a connection whose application_name shows this process's id to other programs.
func (p place) connect(ctx context.Context) (*pgx.Conn, error) {
	return pg.Connect(ctx, p.url()+"&application_name="+useName+strconv.Itoa(os.Getpid()))
}

// useName is the prefix of every such application_name; the process id follows.
const useName = "ledgerfeed-use-by-process-"

// noDatabase is PostgreSQL's error code for a database that does not exist.
const noDatabase = "3D000"

// unavailable reports whether the server said that it is starting or stopping.
func unavailable(said *pgconn.PgError) bool {
	return strings.HasPrefix(said.Code, "57P0") // operator intervention
}

// final reports whether waiting cannot cure a failure to join: the server is not the expected one,
// or it does not let this account in.
func final(err error) bool {
	var peer *pg.PeerError
	if errors.As(err, &peer) || errors.Is(err, fs.ErrPermission) {
		return true
	}
	var said *pgconn.PgError
	return errors.As(err, &said) && !unavailable(said) &&
		said.Code != noDatabase && // the owner is creating it
		said.Code != "53300" // too many connections
}
