//go:build unix

package replication

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/localpg/programs"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// host is the directory of some servers, and the account that runs them.
type host struct {
	t        testing.TB
	dir, bin string
	uid, gid int
	servers  int
}

// Server is a PostgreSQL server that ends with its test.
type Server struct {
	*host

	name, port string
	cmd        *exec.Cmd
	exited     chan struct{}
	log        testkit.Buffer
}

// administrator is the account of all connections.
const administrator = "postgres"

// database is the one that URL names.
const database = "feed"

// Start starts a server with an empty database.
func Start(t testing.TB) *Server {
	t.Helper()
	h := &host{t: t, uid: os.Geteuid(), gid: os.Getegid()}
	account := "this account"
	if h.uid == 0 {
		account = "postgres"
		u := testkit.Must(user.Lookup(account))(t)
		h.uid, h.gid = testkit.Must(strconv.Atoi(u.Uid))(t), testkit.Must(strconv.Atoi(u.Gid))(t)
	}
	h.dir = testkit.Must(os.MkdirTemp("", "replication-"))(t) // t.TempDir is closed to other accounts
	t.Cleanup(func() { _ = os.RemoveAll(h.dir) })
	if err := os.Chown(h.dir, h.uid, h.gid); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(h.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	found := testkit.Must(programs.Find(t.Context(), programs.Search{Path: os.Getenv("PATH"), Globs: programs.DefaultSearch().Globs}, programs.Wanted{
		Cluster: h.dir, Account: account, MayReach: func(string) bool { return true },
	}, testkit.Discard()))(t)
	h.bin = filepath.Dir(found.Postgres)
	s := h.server()
	s.run("initdb", "--pgdata", s.data(), "--username", administrator, "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-instructions", "--no-sync")
	s.Begin()
	s.execute("postgres", "CREATE DATABASE "+database)
	return s
}

func (h *host) server() *Server {
	h.servers++
	return &Server{host: h, name: "server" + strconv.Itoa(h.servers), port: strconv.Itoa(5432 + h.servers)} // it names a socket in the directory
}

func (s *Server) data() string { return filepath.Join(s.dir, s.name) }

// URL is the address of the database.
func (s *Server) URL() string { return s.url(database) }

func (s *Server) url(database string) string {
	return fmt.Sprintf("postgres:///%s?host=%s&port=%s&user=%s", database, url.QueryEscape(s.dir), s.port, administrator)
}

// Replica starts a streaming replica of the server.
func (s *Server) Replica() *Server {
	s.t.Helper()
	r := s.Copy()
	r.Begin()
	return r
}

// Copy makes a replica that is not started yet.
func (s *Server) Copy() *Server {
	s.t.Helper()
	r := s.server()
	s.copyTo(r.data())
	settings := filepath.Join(r.data(), "postgresql.auto.conf")
	file := testkit.Must(os.OpenFile(settings, os.O_APPEND|os.O_WRONLY, 0o600))(s.t)
	_, err := fmt.Fprintf(file, "primary_conninfo = 'host=%s port=%s user=%s'\n", s.dir, s.port, administrator)
	if err := errors.Join(err, file.Close()); err != nil {
		s.t.Fatal(err)
	}
	s.write(filepath.Join(r.data(), "standby.signal"), strings.NewReader(""))
	return r
}

// as makes a command run by the account of the servers.
func (h *host) as(c *exec.Cmd) *exec.Cmd {
	c.Dir = h.dir
	testkit.EndWithTest(c)
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	if h.uid != os.Geteuid() {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(h.uid), Gid: uint32(h.gid)}
	}
	return c
}

func (s *Server) run(program string, args ...string) {
	s.t.Helper()
	c := s.as(exec.CommandContext(s.t.Context(), filepath.Join(s.bin, program), args...))
	c.Env = []string{"PATH=" + s.bin + ":/usr/bin:/bin", "LC_ALL=C", "HOME=" + s.dir}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		s.t.Fatalf("%s: %v\n%s", program, err, out.Bytes())
	}
}

// Begin starts the server and returns when it answers.
func (s *Server) Begin() {
	s.t.Helper()
	s.spawn()
	testkit.Eventually(s.t, func() error {
		conn, err := pgx.Connect(s.t.Context(), s.url("postgres"))
		if err == nil {
			return conn.Close(s.t.Context())
		}
		select {
		case <-s.exited: // where processes of an earlier one still end
			s.spawn()
		default:
		}
		return fmt.Errorf("%w\n%s", err, s.log.String())
	})
}

func (s *Server) spawn() {
	s.t.Helper()
	args := []string{"-D", s.data()}
	for _, setting := range []string{
		"port=" + s.port, "listen_addresses=", "unix_socket_directories=" + s.dir, "max_connections=120", "shared_buffers=32MB",
		"fsync=off", "wal_level=replica", "max_wal_senders=8", "hot_standby=on", "wal_keep_size=256MB", "max_wal_size=256MB", "jit=off",
		"timezone=UTC", "wal_receiver_status_interval=100ms",
	} {
		args = append(args, "-c", setting)
	}
	c := s.as(exec.Command(filepath.Join(s.bin, "postgres"), args...))
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
func (s *Server) Stop() {
	_ = s.cmd.Process.Signal(syscall.SIGINT)
	<-s.exited
}

// Freeze lets the server and its sessions stand still, as a machine does whose network has
// failed: connections stay open, and nothing answers. The returned function thaws it.
func (s *Server) Freeze() (thaw func()) {
	s.t.Helper()
	pids := append(s.sessions(), s.cmd.Process.Pid)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	thaw = func() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	s.t.Cleanup(thaw)
	return thaw
}

// sessions are the processes of the server's clients.
func (s *Server) sessions() (pids []int) {
	s.t.Helper()
	conn := testkit.Must(pgx.Connect(s.t.Context(), s.url("postgres")))(s.t)
	defer conn.Close(s.t.Context())
	rows := testkit.Must(conn.Query(s.t.Context(), `SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`))(s.t)
	return testkit.Must(pgx.CollectRows(rows, pgx.RowTo[int]))(s.t)
}

// Pause lets a replica replay nothing more; Resume ends that.
func (s *Server) Pause() {
	s.t.Helper()
	s.execute(database, `SELECT pg_wal_replay_pause()`)
	testkit.Eventually(s.t, func() error {
		if state := s.text(`SELECT pg_get_wal_replay_pause_state()`); state != "paused" {
			return fmt.Errorf("replay is %s", state)
		}
		return nil
	})
}

// Resume lets a replica replay again.
func (s *Server) Resume() {
	s.t.Helper()
	s.execute(database, `SELECT pg_wal_replay_resume()`)
}

// Promote makes a replica take writes.
func (s *Server) Promote() {
	s.t.Helper()
	s.execute(database, `SELECT pg_promote(true, 60)`)
}

// Follow makes a replica follow another server.
func (s *Server) Follow(other *Server) {
	s.t.Helper()
	s.execute("postgres", fmt.Sprintf(`ALTER SYSTEM SET primary_conninfo = 'host=%s port=%s user=%s'`, other.dir, other.port, administrator))
	s.execute("postgres", `SELECT pg_reload_conf()`)
}

// Execute runs a statement in the database.
func (s *Server) Execute(sql string) {
	s.t.Helper()
	s.execute(database, sql)
}

func (s *Server) execute(database, sql string) {
	s.t.Helper()
	conn := testkit.Must(pgx.Connect(s.t.Context(), s.url(database)))(s.t)
	defer conn.Close(s.t.Context())
	if _, err := conn.Exec(s.t.Context(), sql); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

func (s *Server) text(sql string) (v string) {
	s.t.Helper()
	conn := testkit.Must(pgx.Connect(s.t.Context(), s.url(database)))(s.t)
	defer conn.Close(s.t.Context())
	if err := conn.QueryRow(s.t.Context(), sql).Scan(&v); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// Set changes a setting of the server that needs no restart.
func (s *Server) Set(name, value string) {
	s.t.Helper()
	s.execute("postgres", "ALTER SYSTEM SET "+name+" = '"+value+"'")
	s.execute("postgres", `SELECT pg_reload_conf()`)
}
