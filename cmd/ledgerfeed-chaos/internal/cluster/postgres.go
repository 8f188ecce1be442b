//go:build linux

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/localpg"
)

const (
	databaseName = "ledgerfeed" // also the role
	password     = "chaos"      // the server listens on this machine alone, and holds made-up data
	startTimeout = time.Minute
	retryEvery   = 20 * time.Millisecond
)

// Server is one PostgreSQL server with its data directory.
type Server struct {
	dir     string
	port    int
	bin     string // directory of the server's programs
	account account

	mu     sync.Mutex
	cmd    *exec.Cmd     // nil: it does not run
	exited chan struct{} // closed when cmd has been waited for
}

// newServer prepares a server whose data will be in dir.
func newServer(bin string, a account, dir string) (*Server, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	return &Server{dir: dir, port: port, bin: bin, account: a}, nil
}

// Servers get ports from firstPort on, ports of them: the system gives none of these to outgoing
// connections, which would take a server's port while it is down.
const firstPort, ports = 15_000, 15_000

// FreePort is a port of this machine that nobody listens at.
func FreePort() (int, error) {
	for range 100 {
		port := firstPort + rand.IntN(ports)
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("cannot find a free port from %d to %d", firstPort, firstPort+ports-1)
}

// findPrograms returns the directory of PostgreSQL's programs.
func findPrograms(ctx context.Context, a account, base string) (string, error) {
	found, err := localpg.Find(ctx, localpg.DefaultSearch(), localpg.Wanted{
		Cluster: base, Account: a.name, MayReach: func(string) bool { return true }, Cache: filepath.Join(base, "programs"),
	}, discard())
	if err != nil {
		return "", fmt.Errorf("cannot find PostgreSQL's programs: %w", err)
	}
	return filepath.Dir(found.Postgres), nil
}

// Address is where the server listens.
func (s *Server) Address() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
}

// URL is the address of the database, past every proxy.
func (s *Server) URL() string { return urlAt(s.Address(), databaseName) }

func urlAt(address, database string) string {
	return "postgres://" + databaseName + ":" + password + "@" + address + "/" + database + "?sslmode=disable"
}

// run runs one of PostgreSQL's programs to its end.
func (s *Server) run(ctx context.Context, program string, args ...string) error {
	c := s.account.as(exec.CommandContext(ctx, filepath.Join(s.bin, program), args...))
	c.Env = append(os.Environ(), "PGPASSWORD="+password, "LC_ALL=C")
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := onOwnThread(c.Run); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, out.Bytes())
	}
	return nil
}

// initialize makes the cluster and the database.
func (s *Server) initialize(ctx context.Context) error {
	if err := s.makeDir(); err != nil {
		return err
	}
	file := s.dir + ".password"
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		return err
	}
	if err := s.account.own(file); err != nil {
		return err
	}
	// Small segments of the write-ahead log, so that a full disk is met soon.
	err := s.run(ctx, "initdb", "-D", s.dir, "--username="+databaseName, "--auth=scram-sha-256", "--pwfile="+file,
		"--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions", "--wal-segsize=1")
	if err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	admin, err := pgx.Connect(ctx, urlAt(s.Address(), "postgres"))
	if err != nil {
		return fmt.Errorf("cannot connect to the new server: %w", err)
	}
	_, err = admin.Exec(ctx, "CREATE DATABASE "+databaseName)
	return errors.Join(err, admin.Close(ctx))
}

func (s *Server) makeDir() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	return s.account.own(s.dir)
}

// settings of every server. The data outlives the kill of every process without
// fsync, which only guards against the machine itself; commits do wait for the
// write.
func (s *Server) settings() []string {
	return []string{
		"listen_addresses=127.0.0.1", "port=" + strconv.Itoa(s.port), "unix_socket_directories=",
		"fsync=off", "synchronous_commit=on", "full_page_writes=on",
		"wal_level=replica", "max_wal_senders=6", "hot_standby=on", "wal_keep_size=256MB",
		"max_connections=150", "shared_buffers=48MB", "max_wal_size=96MB", "min_wal_size=8MB",
		"jit=off", "timezone=UTC", "log_timezone=UTC", "log_line_prefix=%m [%p] %q%a ", "logging_collector=off",
	}
}

// Start starts the server and returns when it answers. Where processes of an
// earlier one still live, it waits for them to end.
func (s *Server) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := s.tryStart(ctx)
		if err == nil || !flow.Sleep(ctx, 5*retryEvery) {
			return err
		}
	}
}

func (s *Server) tryStart(ctx context.Context) error {
	if err := s.forgetReplica(); err != nil {
		return err
	}
	log, err := os.OpenFile(s.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"-D", s.dir}
	for _, setting := range s.settings() {
		args = append(args, "-c", setting)
	}
	// Not bound to ctx: only the methods below end the server.
	c := s.account.as(exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(s.bin, "postgres"), args...))
	c.Stdout, c.Stderr = log, log
	exited := make(chan struct{})
	started := make(chan error, 1)
	go func() {
		_ = onOwnThread(func() error {
			err := c.Start()
			started <- err
			if err == nil {
				_ = c.Wait()
				close(exited)
			}
			return nil
		})
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("cannot start postgres: %w", err)
	}
	s.mu.Lock()
	s.cmd, s.exited = c, exited
	s.mu.Unlock()
	return s.awaitReady(ctx, exited)
}

// forgetReplica takes the setting with which commits wait for a replica out of the
// server's files: after a fault, or in a copy, there is none, and they would wait for
// good.
func (s *Server) forgetReplica() error {
	name := filepath.Join(s.dir, "postgresql.auto.conf")
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("cannot read the settings of the server: %w", err)
	}
	var kept []byte
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte("synchronous_standby_names")) {
			kept = append(kept, line...)
		}
	}
	if len(kept) == len(text) {
		return nil
	}
	if err := os.WriteFile(name, kept, 0o600); err != nil { // it keeps its owner
		return fmt.Errorf("cannot write the settings of the server: %w", err)
	}
	return nil
}

// awaitReady returns when the server answers, or has ended.
func (s *Server) awaitReady(ctx context.Context, exited <-chan struct{}) error {
	for {
		conn, err := pgx.Connect(ctx, urlAt(s.Address(), "postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-exited:
			return fmt.Errorf("PostgreSQL ended instead of starting; its log is %s.log", s.dir)
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL does not answer: %w", err)
		case <-time.After(retryEvery):
		}
	}
}

// Running tells whether the server's first process lives.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return false
	}
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// Kill kills the server's first process and all of its children at once. A child that
// was born meanwhile goes, too: the server does not start beside it, and it may wait
// for good for what another one held.
func (s *Server) Kill() {
	s.mu.Lock()
	c, exited := s.cmd, s.exited
	s.cmd = nil
	s.mu.Unlock()
	if c == nil {
		return
	}
	children := processesIn(s.dir)
	_ = c.Process.Kill()
	for ; len(children) > 0; children = processesIn(s.dir) {
		for _, pid := range children {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	<-exited
}

// KillBackend kills one process that serves a connection, chosen by roll. The
// server then ends all others and recovers by itself. It reports false when there is
// none.
func (s *Server) KillBackend(ctx context.Context, roll uint64) (bool, error) {
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return false, fmt.Errorf("cannot look for a backend to kill: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	rows, err := conn.Query(ctx, `SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY pid`)
	if err != nil {
		return false, fmt.Errorf("cannot look for a backend to kill: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil || len(list) == 0 {
		return false, err
	}
	if err := syscall.Kill(list[roll%uint64(len(list))], syscall.SIGKILL); err != nil {
		return true, fmt.Errorf("cannot kill a backend: %w", err)
	}
	return true, nil
}

// Stop shuts the server down as an operator does.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	c, exited := s.cmd, s.exited
	s.cmd = nil
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	_ = c.Process.Signal(syscall.SIGINT) // fast shutdown
	select {
	case <-exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("PostgreSQL does not stop: %w", context.Cause(ctx))
	}
}

// Promote makes a replica the primary.
func (s *Server) Promote(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return fmt.Errorf("cannot promote the replica: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var done bool
	if err := conn.QueryRow(ctx, "SELECT pg_promote(true, 60)").Scan(&done); err != nil || !done {
		return fmt.Errorf("cannot promote the replica: done %t, %w", done, err)
	}
	return nil
}

// copyTo makes a physical copy of the running server; with an upstream address it
// is a replica that follows it under a name.
func (s *Server) copyTo(ctx context.Context, to *Server, upstream, name string) error {
	if err := to.makeDir(); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(s.Address())
	if upstream != "" {
		host, port, err = net.SplitHostPort(upstream)
	}
	if err != nil {
		return fmt.Errorf("cannot copy the server: %w", err)
	}
	connection := "host=" + host + " port=" + port + " user=" + databaseName + " password=" + password + " sslmode=disable application_name=" + name
	args := []string{"-D", to.dir, "-d", connection, "--checkpoint=fast", "--wal-method=stream", "--no-sync"}
	if upstream != "" {
		args = append(args, "--write-recovery-conf")
	}
	if err := s.run(ctx, "pg_basebackup", args...); err != nil {
		return errors.Join(err, to.remove())
	}
	return nil
}

// remove deletes the data of a server that does not run.
func (s *Server) remove() error { return os.RemoveAll(s.dir) }
