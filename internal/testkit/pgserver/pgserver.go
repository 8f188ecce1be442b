//go:build unix

package pgserver

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/localpg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// Administrator is the account that owns a server's databases.
const Administrator = "postgres"

// Host is a machine with PostgreSQL: its programs, the account that runs them, and a
// directory, which is removed at the end of the test.
type Host struct {
	Dir string

	t        testing.TB
	programs string
	uid, gid int
	servers  int
}

// NewHost finds the programs and makes the directory.
func NewHost(t testing.TB) *Host {
	t.Helper()
	h := &Host{t: t, uid: os.Geteuid(), gid: os.Getegid()}
	account := "this account"
	if h.uid == 0 { // PostgreSQL refuses to run as root
		account = "postgres"
		u := testkit.Must(user.Lookup(account))(t)
		h.uid, h.gid = testkit.Must(strconv.Atoi(u.Uid))(t), testkit.Must(strconv.Atoi(u.Gid))(t)
	}
	h.Dir = testkit.Must(os.MkdirTemp("", "pgserver-"))(t) // t.TempDir is closed to other accounts
	t.Cleanup(func() { _ = os.RemoveAll(h.Dir) })
	h.open(h.Dir)
	found := testkit.Must(localpg.Find(t.Context(), localpg.Search{Path: os.Getenv("PATH"), Globs: localpg.DefaultSearch().Globs}, localpg.Wanted{
		Cluster: h.Dir, Account: account, MayReach: func(string) bool { return true },
	}, testkit.Discard()))(t)
	h.programs = filepath.Dir(found.Postgres)
	return h
}

// open gives a directory to the servers' account, and lets others enter it.
func (h *Host) open(path string) {
	h.t.Helper()
	if err := os.Chmod(path, 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := h.Give(path); err != nil {
		h.t.Fatal(err)
	}
}

// Give gives a file or a directory to the account that runs the servers.
func (h *Host) Give(path string) error { return os.Chown(path, h.uid, h.gid) }

// Mkdir makes a directory in Dir that others may enter.
func (h *Host) Mkdir(name string) {
	h.t.Helper()
	path := filepath.Join(h.Dir, name)
	if err := os.Mkdir(path, 0o755); err != nil {
		h.t.Fatal(err)
	}
	h.open(path)
}

// as makes a command one of the servers' account.
func (h *Host) as(c *exec.Cmd) *exec.Cmd {
	c.Dir = h.Dir
	testkit.EndWithTest(c)
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	if h.uid != os.Geteuid() {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(h.uid), Gid: uint32(h.gid)}
	}
	return c
}

// Server is a server of a Host. It ends with the test.
type Server struct {
	*Host

	// Port names its socket in the host's directory; it does not listen elsewhere.
	Port string
	// Data is its data directory.
	Data string

	settings []string
	cmd      *exec.Cmd
	exited   chan struct{}
	log      testkit.Buffer
}

// Server is a server of the host with its data in a directory of that name, which is not
// made. Settings are of the form name=value.
func (h *Host) Server(name string, settings ...string) *Server {
	h.servers++
	s := &Server{Host: h, Port: strconv.Itoa(5432 + h.servers), Data: filepath.Join(h.Dir, name)}
	s.settings = append([]string{"port=" + s.Port, "listen_addresses=", "unix_socket_directories=" + h.Dir}, settings...)
	return s
}

// URL is the address of a database for an account.
func (s *Server) URL(account, database string) string {
	return fmt.Sprintf("postgres:///%s?host=%s&port=%s&user=%s", database, url.QueryEscape(s.Dir), s.Port, account)
}

// Run runs a program as the servers' account, with this server as the one that programs of
// PostgreSQL connect to, and returns what it has written.
func (s *Server) Run(program string, args ...string) string {
	s.t.Helper()
	if own := filepath.Join(s.programs, program); exists(own) {
		program = own
	}
	c := s.as(exec.CommandContext(s.t.Context(), program, args...))
	c.Env = []string{
		"PATH=" + s.programs + ":/usr/bin:/bin", "PGHOST=" + s.Dir, "PGPORT=" + s.Port, "PGUSER=" + Administrator, "LC_ALL=C", "HOME=" + s.Dir,
	}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		s.t.Fatalf("%s %q: %v\n%s", program, args, err, out.Bytes())
	}
	return out.String()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Initialize makes the data directory.
func (s *Server) Initialize() {
	s.t.Helper()
	s.Run("initdb", "--pgdata", s.Data, "--username", Administrator, "--auth", "trust", "--encoding", "UTF8", "--locale", "C",
		"--no-instructions", "--no-sync")
}

// Begin starts the server and returns when it answers. Where processes of an earlier one
// still end, it tries again.
func (s *Server) Begin() {
	s.t.Helper()
	s.start()
	testkit.Eventually(s.t, func() error {
		conn, err := pgx.Connect(s.t.Context(), s.URL(Administrator, "postgres"))
		if err == nil {
			return conn.Close(s.t.Context())
		}
		select {
		case <-s.exited:
			s.start()
		default:
		}
		return fmt.Errorf("%w\n%s", err, s.log.String())
	})
}

func (s *Server) start() {
	s.t.Helper()
	args := []string{"-D", s.Data}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	c := s.as(exec.Command(filepath.Join(s.programs, "postgres"), args...))
	c.Stdout, c.Stderr = &s.log, &s.log
	started := make(chan error)
	exited := make(chan struct{})
	// The kernel ends a process with the thread that has started it, so that one waits.
	go func() {
		defer close(exited)
		started <- c.Start()
		_ = c.Wait()
	}()
	if err := <-started; err != nil {
		s.t.Fatal(err)
	}
	s.cmd, s.exited = c, exited
	s.t.Cleanup(func() { _ = c.Process.Signal(syscall.SIGQUIT); <-exited })
}

// Stop ends the server at once, and its connections with it.
func (s *Server) Stop() { s.end(syscall.SIGINT) }

// Kill ends the server as kill -9 does; its children notice.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

func (s *Server) end(signal syscall.Signal) {
	_ = s.cmd.Process.Signal(signal)
	<-s.exited
}

// PID is the id of the server's first process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Log is what the server has logged.
func (s *Server) Log() string { return s.log.String() }

// Connect opens a connection of the administrator, for as long as do runs.
func (s *Server) Connect(database string, do func(context.Context, *pgx.Conn)) {
	s.t.Helper()
	conn := testkit.Must(pgx.Connect(s.t.Context(), s.URL(Administrator, database)))(s.t)
	defer conn.Close(s.t.Context())
	do(s.t.Context(), conn)
}

// Execute runs statements as the administrator.
func (s *Server) Execute(database, sql string) {
	s.t.Helper()
	s.Connect(database, func(ctx context.Context, conn *pgx.Conn) {
		if _, err := conn.Exec(ctx, sql); err != nil {
			s.t.Fatalf("%s: %v", sql, err)
		}
	})
}

// Query reads one value as the administrator.
func Query[T any](s *Server, database, sql string, args ...any) (v T) {
	s.t.Helper()
	s.Connect(database, func(ctx context.Context, conn *pgx.Conn) {
		if err := conn.QueryRow(ctx, sql, args...).Scan(&v); err != nil {
			s.t.Fatalf("%s: %v", sql, err)
		}
	})
	return v
}
