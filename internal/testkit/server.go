package testkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/localpg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/pgbouncer"
)

// templateName is the migrated database that NewDatabase clones.
const templateName = "testkit_template"

// startTimeout bounds the start of the server and the migrations. They do not
// run under a test's context: the result serves all tests of the process.
const startTimeout = 3 * time.Minute

// migration brings the schema into the database at url and says what it
// applied.
type migration = func(ctx context.Context, url string) (applied []string, err error)

// server is the throwaway server of one test process.
type server struct {
	migrate migration
	grant   func(ctx context.Context, url string) error // nil: no role
	role    string                                      // of the tests' connections; empty: the owner
	serial  atomic.Int64                                // makes names of databases unique

	// Each is done once; tests that come meanwhile wait for the result, and a
	// failure is every later test's failure, too.
	started   func() (*localpg.Server, error)
	templated func() error
	pooled    func() (*pgbouncer.PgBouncer, error)

	mu      sync.Mutex
	filled  map[string]func() error // templates of FilledDatabase; guarded by mu
	pg      *localpg.Server         // what stop has to close; guarded by mu
	bouncer *pgbouncer.PgBouncer    // guarded by mu
	reaper  *reaper                 // what removes the files; guarded by mu
}

func newServer(migrate migration) *server {
	s := &server{migrate: migrate}
	s.started = sync.OnceValues(s.start)
	s.templated = sync.OnceValue(s.makeTemplate)
	s.pooled = sync.OnceValues(s.startPooler)
	return s
}

// start runs PostgreSQL in a private directory.
func (s *server) start() (*localpg.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	base, err := os.MkdirTemp(memoryDir(), "ledgerfeed-test-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the test server: %w", err)
	}
	r, err := startReaper(base)
	if err != nil {
		return nil, errors.Join(err, os.Remove(base))
	}
	s.mu.Lock()
	s.reaper = r
	s.mu.Unlock()
	pg, err := localpg.Open(ctx, localpg.Config{DataDir: base, Throwaway: true})
	if err != nil {
		return nil, fmt.Errorf("start a PostgreSQL for the tests: %w", err)
	}
	s.mu.Lock()
	s.pg = pg
	s.mu.Unlock()
	return pg, nil
}

// memoryDir is where the data goes: into memory, where the system offers it.
func memoryDir() string {
	const shm = "/dev/shm"
	probe, err := os.MkdirTemp(shm, "ledgerfeed-probe-")
	if err != nil {
		return os.TempDir()
	}
	if err := os.Remove(probe); err != nil {
		return os.TempDir()
	}
	return shm
}

// stop ends the server, if one was started, and removes what it left.
func (s *server) stop(ctx context.Context) error {
	s.mu.Lock()
	pg, bouncer, r := s.pg, s.bouncer, s.reaper
	s.mu.Unlock()
	var errs []error
	if bouncer != nil {
		if err := bouncer.Close(); err != nil {
			errs = append(errs, fmt.Errorf("stop the test server's pooler: %w", err))
		}
	}
	if pg != nil {
		if err := pg.Close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop the test server: %w", err))
		}
	}
	if r != nil {
		if err := r.reap(); err != nil {
			errs = append(errs, fmt.Errorf("remove the test server: %w", err))
		}
	}
	return errors.Join(errs...)
}

// reaper is a shell that removes a directory when this process has ended,
// however it ended: it reads from a pipe whose other end only this process has.
type reaper struct {
	pipe  io.Closer
	shell *exec.Cmd
}

// A server whose owner was killed gets five seconds to shut down. After that, or
// where it has not been told, it ends when it misses its files.
const reaperScript = `read -r _
for i in 1 2 3 4 5 6 7 8 9 10; do [ -e "$0/pgdata/postmaster.pid" ] && sleep 0.5; done
until rm -rf "$0"; do sleep 0.1; done`

func startReaper(dir string) (*reaper, error) {
	r := &reaper{shell: &exec.Cmd{
		Path: "/bin/sh", Args: []string{"sh", "-c", reaperScript, dir}, Dir: "/",
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, // a terminal's Ctrl-C is not for it
	}}
	pipe, err := r.shell.StdinPipe()
	if err == nil {
		err = r.shell.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the shell that removes the test server: %w", err)
	}
	r.pipe = pipe
	return r, nil
}

func (r *reaper) reap() error { return errors.Join(r.pipe.Close(), r.shell.Wait()) }

// maintenanceName is a database that no test uses.
const maintenanceName = "postgres"

// template is the database that NewDatabase clones, made at the first call.
func (s *server) template(context.Context) (string, error) {
	return templateName, s.templated()
}

func (s *server) makeTemplate() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	name := templateName
	if err := s.makeEmpty(ctx, name); err != nil {
		return fmt.Errorf("make the template database: %w", err)
	}
	if _, err := s.migrate(ctx, s.url(name)); err != nil {
		return fmt.Errorf("migrate the template database: %w", err)
	}
	if s.grant != nil {
		if err := s.grant(ctx, s.url(name)); err != nil {
			return fmt.Errorf("give rights in the template database: %w", err)
		}
		// Tests wait until they see that others wait for a lock.
		if err := s.admin(ctx, "GRANT pg_read_all_stats TO "+s.role); err != nil {
			return fmt.Errorf("let tests look at sessions: %w", err)
		}
	}
	return s.close(ctx, name)
}

// fill returns a template with what a function puts into it, made at the first call for a name.
// Tests that come meanwhile wait for it.
func (s *server) fill(name string, put func(url string)) (string, error) {
	template := templateName + "_" + identifier(name)
	s.mu.Lock()
	if s.filled == nil {
		s.filled = map[string]func() error{}
	}
	made := s.filled[name]
	if made == nil {
		err := fmt.Errorf("the template %s was not filled: the test that came first has failed", name)
		var once sync.Once
		made = func() error {
			once.Do(func() { err = s.makeFilled(template, put) }) // a test that fails leaves put at once
			return err
		}
		s.filled[name] = made
	}
	s.mu.Unlock()
	return template, made()
}

func (s *server) makeFilled(template string, put func(url string)) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := s.templated(); err != nil {
		return err
	}
	if err := s.admin(ctx, "CREATE DATABASE "+template+" TEMPLATE "+templateName+" STRATEGY file_copy"); err != nil {
		return fmt.Errorf("make a template to fill: %w", err)
	}
	put(s.url(template))
	return s.close(ctx, template)
}

// close lets nobody connect to a template any more, and ends the connections to it: a database
// that has any cannot be cloned.
func (s *server) close(ctx context.Context, name string) error {
	if err := s.admin(ctx, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false"); err != nil {
		return fmt.Errorf("close the template database: %w", err)
	}
	if err := s.admin(ctx, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '"+name+"'"); err != nil {
		return fmt.Errorf("empty the template database of connections: %w", err)
	}
	return nil
}

// makeEmpty makes a database without the schema.
func (s *server) makeEmpty(ctx context.Context, name string) error {
	return s.admin(ctx, "CREATE DATABASE "+name+" TEMPLATE template0")
}

// clone makes a database; the test's name is in its name, for people who look
// at a server while tests run.
func (s *server) clone(ctx context.Context, template, test string) (string, error) {
	name := fmt.Sprintf("t%d_%s", s.serial.Add(1), identifier(test))
	// Copying files takes a third of the time of the default, which writes every
	// page to the write-ahead log; its checkpoints are cheap without fsync.
	if err := s.admin(ctx, "CREATE DATABASE "+name+" TEMPLATE "+template+" STRATEGY file_copy"); err != nil {
		return "", fmt.Errorf("make a database for %s: %w", test, err)
	}
	return name, nil
}

// drop removes a database and ends the connections to it. DROP DATABASE waits until every session of
// the server has seen a barrier. A session that was just starting can miss it (a race in PostgreSQL 15
// to 18, found in April 2026), and is waited for as long as it lives. The barrier of another DROP
// DATABASE reaches it.
func (s *server) drop(ctx context.Context, name string) (err error) {
	for range 3 {
		limited, cancel := context.WithTimeout(ctx, stopTimeout/4)
		err = s.admin(limited, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
		cancel()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("drop the test's database: %w", err)
}

// admin runs one statement outside of the tests' databases. It opens a
// connection each time, which costs two milliseconds and, unlike a pool, leaves
// no goroutine behind for the tests' leak checks to find.
func (s *server) admin(ctx context.Context, sql string) error {
	pg, err := s.started()
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, s.url(maintenanceName))
	if err != nil {
		return pg.Explain(err)
	}
	if _, err = conn.Exec(ctx, sql); err != nil {
		err = pg.Explain(err)
	}
	return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}

// url is the address of one of the server's databases. It lacks requirepeer,
// which pgx does not know: tests connect with pgx directly, and the server's
// directory is this process's own.
func (s *server) url(name string) string {
	pg, err := s.started()
	if err != nil {
		return "" // not reached: there is no database without a server
	}
	address, _, _ := strings.Cut(localpg.DatabaseURL(pg.URL(), name), "&requirepeer=")
	return address
}

// identifier makes a name of letters, digits and underscores, short enough to
// stay within PostgreSQL's 63 bytes with its number.
func identifier(test string) string {
	id := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, filepath.ToSlash(test))
	return id[:min(len(id), 40)]
}

// startPooler starts the one PgBouncer of a test process.
func (s *server) startPooler() (*pgbouncer.PgBouncer, error) {
	server, err := s.started()
	if err != nil {
		return nil, err
	}
	at, err := url.Parse(server.URL())
	if err != nil {
		return nil, fmt.Errorf("read the test server's address: %w", err)
	}
	b, err := pgbouncer.New(filepath.Join(at.Query().Get("host"), ".s.PGSQL.5432"), at.User.Username())
	if err != nil {
		return nil, fmt.Errorf("start a pooler for the tests: %w", err)
	}
	s.mu.Lock()
	s.bouncer = b
	s.mu.Unlock()
	if err := b.Begin(); err != nil {
		return nil, err
	}
	return b, answers(filepath.Join(b.Dir, ".s.PGSQL.5432"))
}

// answers waits until connections to a socket are taken.
func answers(socket string) error {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for began := time.Now(); ; <-again.C {
		conn, err := (&net.Dialer{}).DialContext(context.Background(), "unix", socket)
		if err == nil {
			return conn.Close()
		}
		if time.Since(began) > startTimeout {
			return fmt.Errorf("wait for the pooler: %w", err)
		}
	}
}
