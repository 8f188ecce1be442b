//go:build outside && unix

package main

import (
	"bytes"
	"fmt"
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

// backupPage is docs/operations/backup.md, whose commands a drill runs as they are written.
type backupPage struct {
	t       *testing.T
	text    string
	replace *strings.Replacer // of the page's paths by the drill's
}

// block returns the n-th block of code, from 0, below a heading.
func (p *backupPage) block(heading string, n int) string {
	p.t.Helper()
	_, section, found := strings.Cut(p.text, "\n"+heading+"\n")
	if !found {
		p.t.Fatalf("the page has no heading %q", heading)
	}
	if at := strings.Index(section, "\n## "); at >= 0 {
		section = section[:at]
	}
	for range n {
		_, section, _ = strings.Cut(section, "```")
		_, section, _ = strings.Cut(section, "```")
	}
	_, section, _ = strings.Cut(section, "```")
	code, _, found := strings.Cut(section, "```")
	_, code, _ = strings.Cut(code, "\n") // behind the language
	if !found || strings.TrimSpace(code) == "" {
		p.t.Fatalf("%s has no block %d", heading, n)
	}
	return p.replace.Replace(code)
}

// drillHost is a machine with PostgreSQL: its programs, the account that runs them, and a
// directory.
type drillHost struct {
	t        *testing.T
	dir, bin string
	uid, gid int
	servers  int
}

func newDrillHost(t *testing.T) *drillHost {
	t.Helper()
	h := &drillHost{t: t, uid: os.Geteuid(), gid: os.Getegid()}
	name := "this account"
	if h.uid == 0 {
		name = "postgres"
		u := testkit.Must(user.Lookup(name))(t)
		h.uid, h.gid = testkit.Must(strconv.Atoi(u.Uid))(t), testkit.Must(strconv.Atoi(u.Gid))(t)
	}
	h.dir = testkit.Must(os.MkdirTemp("", "drill-"))(t) // t.TempDir is closed to other accounts
	t.Cleanup(func() { _ = os.RemoveAll(h.dir) })
	h.own(h.dir)
	found := testkit.Must(programs.Find(t.Context(), programs.Search{Path: os.Getenv("PATH"), Globs: programs.DefaultSearch().Globs}, programs.Wanted{
		Cluster: h.dir, Account: name, MayReach: func(string) bool { return true },
	}, testkit.Discard()))(t)
	h.bin = filepath.Dir(found.Postgres)
	h.mkdir("backup")
	h.mkdir("backup/wal")
	return h
}

// own lets others enter a directory that belongs to the account of PostgreSQL.
func (h *drillHost) own(path string) {
	h.t.Helper()
	if err := os.Chmod(path, 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Chown(path, h.uid, h.gid); err != nil {
		h.t.Fatal(err)
	}
}

func (h *drillHost) mkdir(name string) {
	h.t.Helper()
	if err := os.Mkdir(filepath.Join(h.dir, name), 0o755); err != nil {
		h.t.Fatal(err)
	}
	h.own(filepath.Join(h.dir, name))
}

// as makes a command run by the account of PostgreSQL.
func (h *drillHost) as(c *exec.Cmd) *exec.Cmd {
	c.Dir = h.dir
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if h.uid != os.Geteuid() {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(h.uid), Gid: uint32(h.gid)}
	}
	return c
}

// drillServer is one PostgreSQL server of a host.
type drillServer struct {
	*drillHost

	name, port string
	cmd        *exec.Cmd
	exited     chan struct{}
	log        testkit.Buffer
}

// server is a server with its data in a directory of that name.
func (h *drillHost) server(name string) *drillServer {
	h.servers++
	return &drillServer{drillHost: h, name: name, port: strconv.Itoa(5432 + h.servers)} // it names a socket in the drill's directory
}

func (s *drillServer) data() string { return filepath.Join(s.dir, s.name) }

// url is the address of a database for an account.
func (s *drillServer) url(account, database string) string {
	return fmt.Sprintf("postgres:///%s?host=%s&port=%s&user=%s", database, s.dir, s.port, account)
}

// shell runs what the page says, as the account of PostgreSQL, with the server as the one
// that its programs connect to.
func (s *drillServer) shell(script string) string {
	s.t.Helper()
	c := s.as(exec.CommandContext(s.t.Context(), "bash", "-euo", "pipefail", "-c", script))
	c.Env = []string{"PATH=" + s.bin + ":/usr/bin:/bin", "PGHOST=" + s.dir, "PGPORT=" + s.port, "PGUSER=postgres", "LC_ALL=C", "HOME=" + s.dir}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		s.t.Fatalf("%v\n%s\n%s", err, script, out.Bytes())
	}
	return out.String()
}

func (s *drillServer) initialize(settings string) {
	s.t.Helper()
	s.shell("initdb --pgdata " + s.data() + " --username postgres --auth trust --encoding UTF8 --locale C --no-instructions")
	s.shell("cat >>" + s.data() + "/postgresql.conf <<'END'\n" + settings + "\nEND\n")
	s.start()
}

// start starts the server and returns when it answers. Where processes of an earlier one
// still end, it tries again.
func (s *drillServer) start() {
	s.t.Helper()
	s.spawn()
	testkit.Eventually(s.t, func() error {
		conn, err := pgx.Connect(s.t.Context(), s.url("postgres", "postgres"))
		if err == nil {
			return conn.Close(s.t.Context())
		}
		select {
		case <-s.exited:
			s.spawn()
		default:
		}
		return fmt.Errorf("%w\n%s", err, s.log.String())
	})
}

func (s *drillServer) spawn() {
	s.t.Helper()
	c := s.as(exec.Command(filepath.Join(s.bin, "postgres"), "-D", s.data(), "-c", "port="+s.port, "-c", "listen_addresses=",
		"-c", "unix_socket_directories="+s.dir, "-c", "max_connections=200"))
	c.Stdout, c.Stderr = &s.log, &s.log
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { defer close(exited); _ = c.Wait() }()
	s.cmd, s.exited = c, exited
	s.t.Cleanup(func() { _ = c.Process.Signal(syscall.SIGQUIT); <-exited })
}

// kill ends the server as kill -9 does; its children notice.
func (s *drillServer) kill() { s.end(syscall.SIGKILL) }

// stop ends the server as an operator does.
func (s *drillServer) stop() { s.end(syscall.SIGINT) }

func (s *drillServer) end(signal syscall.Signal) {
	_ = s.cmd.Process.Signal(signal)
	<-s.exited
}

// query reads one value as the administrator.
func query[T any](s *drillServer, database, sql string, args ...any) (v T) {
	s.t.Helper()
	conn := testkit.Must(pgx.Connect(s.t.Context(), s.url("postgres", database)))(s.t)
	defer conn.Close(s.t.Context())
	if err := conn.QueryRow(s.t.Context(), sql, args...).Scan(&v); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// execute runs statements as the administrator.
func (s *drillServer) execute(database, sql string) {
	s.t.Helper()
	conn := testkit.Must(pgx.Connect(s.t.Context(), s.url("postgres", database)))(s.t)
	defer conn.Close(s.t.Context())
	if _, err := conn.Exec(s.t.Context(), sql); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}
