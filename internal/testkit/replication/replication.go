//go:build unix

package replication

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/pgserver"
)

// Server is a PostgreSQL server that ends with its test.
type Server struct {
	*pgserver.Server

	t        testing.TB
	replicas *int // of the first server, so far
}

// database is the one that URL names.
const database = "feed"

// settings are the settings of the servers.
func settings() []string {
	return []string{
		"max_connections=120", "shared_buffers=32MB", "fsync=off", "wal_level=replica", "max_wal_senders=8", "hot_standby=on",
		"wal_keep_size=256MB", "max_wal_size=256MB", "jit=off", "timezone=UTC", "wal_receiver_status_interval=100ms",
	}
}

// Start starts a server with an empty database.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{Server: pgserver.NewHost(t).Server("primary", settings()...), t: t, replicas: new(int)}
	s.Initialize()
	s.Begin()
	s.Server.Execute("postgres", "CREATE DATABASE "+database)
	return s
}

// URL is the address of the database.
func (s *Server) URL() string { return s.Server.URL(pgserver.Administrator, database) }

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
	*s.replicas++
	r := &Server{Server: s.Host.Server("replica"+strconv.Itoa(*s.replicas), settings()...), t: s.t, replicas: s.replicas}
	s.copyTo(r.Data)
	file := testkit.Must(os.OpenFile(filepath.Join(r.Data, "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0o600))(s.t)
	_, err := fmt.Fprintf(file, "primary_conninfo = '%s'\n", s.conninfo())
	if err := errors.Join(err, file.Close()); err != nil {
		s.t.Fatal(err)
	}
	s.write(filepath.Join(r.Data, "standby.signal"), strings.NewReader(""))
	return r
}

// conninfo is how a replica reaches the server.
func (s *Server) conninfo() string {
	return fmt.Sprintf("host=%s port=%s user=%s", s.Dir, s.Port, pgserver.Administrator)
}

// Freeze lets the server and its sessions stand still, as a machine does whose network has
// failed: connections stay open, and nothing answers. The returned function thaws it.
func (s *Server) Freeze() (thaw func()) {
	s.t.Helper()
	pids := append(s.sessions(), s.PID())
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
func (s *Server) sessions() []int {
	s.t.Helper()
	return pgserver.Query[[]int](s.Server, "postgres",
		`SELECT coalesce(array_agg(pid), '{}') FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`)
}

// Pause lets a replica replay nothing more; Resume ends that.
func (s *Server) Pause() {
	s.t.Helper()
	s.Server.Execute(database, `SELECT pg_wal_replay_pause()`)
	testkit.Eventually(s.t, func() error {
		if state := pgserver.Query[string](s.Server, database, `SELECT pg_get_wal_replay_pause_state()`); state != "paused" {
			return fmt.Errorf("replay is %s", state)
		}
		return nil
	})
}

// Resume lets a replica replay again.
func (s *Server) Resume() {
	s.t.Helper()
	s.Server.Execute(database, `SELECT pg_wal_replay_resume()`)
}

// Promote makes a replica take writes.
func (s *Server) Promote() {
	s.t.Helper()
	s.Server.Execute(database, `SELECT pg_promote(true, 60)`)
}

// Follow makes a replica follow another server.
func (s *Server) Follow(other *Server) {
	s.t.Helper()
	s.Server.Execute("postgres", `ALTER SYSTEM SET primary_conninfo = '`+other.conninfo()+`'`)
	s.Server.Execute("postgres", `SELECT pg_reload_conf()`)
}

// Execute runs a statement in the database.
func (s *Server) Execute(sql string) {
	s.t.Helper()
	s.Server.Execute(database, sql)
}

// Set changes a setting of the server that needs no restart.
func (s *Server) Set(name, value string) {
	s.t.Helper()
	s.Server.Execute("postgres", "ALTER SYSTEM SET "+name+" = '"+value+"'")
	s.Server.Execute("postgres", `SELECT pg_reload_conf()`)
}
