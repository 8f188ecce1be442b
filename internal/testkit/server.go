package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/localpg"
)

// templateName is the migrated database that NewDatabase clones.
const templateName = "testkit_template"

// startPatience bounds the start of the server and the migrations. They do not
// run under a test's context: the result serves all tests of the process.
const startPatience = 3 * time.Minute

// migration brings the schema into the database at url and says what it
// applied.
type migration = func(ctx context.Context, url string) (applied []string, err error)

// server is the throwaway server of one test process.
type server struct {
	migrate migration
	serial  atomic.Int64 // makes names of databases unique

	// Each is done once; the tests that come together wait for the first, and
	// a failure is every later test's failure, too.
	started   func() (*localpg.Server, error)
	templated func() error

	mu   sync.Mutex
	pg   *localpg.Server // what stop has to close; guarded by mu
	base string          // the private directory; guarded by mu
}

func newServer(migrate migration) *server {
	s := &server{migrate: migrate}
	s.started = sync.OnceValues(s.start)
	s.templated = sync.OnceValue(s.makeTemplate)
	return s
}

// start runs PostgreSQL in a private directory.
func (s *server) start() (*localpg.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	base, err := os.MkdirTemp(memoryDir(), "ledgerfeed-test-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the test server: %w", err)
	}
	s.mu.Lock()
	s.base = base
	s.mu.Unlock()
	// Root's server runs under another account, which has to pass through; the
	// data below is that account's alone.
	if os.Geteuid() == 0 {
		if err := os.Chmod(base, 0o711); err != nil {
			return nil, fmt.Errorf("open the test server's directory for its account: %w", err)
		}
	}
	// The keeper removes the server's directory itself, so that a test process
	// that is killed or times out does not leave its data in memory.
	pg, err := localpg.Open(ctx, localpg.Config{DataDir: base, Throwaway: true, RemoveOnStop: true})
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
	pg, base := s.pg, s.base
	s.mu.Unlock()
	var errs []error
	if pg != nil {
		if err := pg.Close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop the test server: %w", err))
		}
	}
	if base != "" {
		errs = append(errs, os.RemoveAll(base))
	}
	return errors.Join(errs...)
}

// template is the database that NewDatabase clones, made by the first who asks.
func (s *server) template(context.Context) (string, error) {
	return templateName, s.templated()
}

func (s *server) makeTemplate() error {
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	if err := s.admin(ctx, "CREATE DATABASE "+templateName+" TEMPLATE template0"); err != nil {
		return fmt.Errorf("make the template database: %w", err)
	}
	if _, err := s.migrate(ctx, s.url(templateName)); err != nil {
		return fmt.Errorf("migrate the template database: %w", err)
	}
	// A database with connections cannot be cloned: no new ones, and none of
	// those that migrate may have left open.
	if err := s.admin(ctx, "ALTER DATABASE "+templateName+" ALLOW_CONNECTIONS false"); err != nil {
		return fmt.Errorf("close the template database: %w", err)
	}
	if err := s.admin(ctx, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '"+templateName+"'"); err != nil {
		return fmt.Errorf("empty the template database of connections: %w", err)
	}
	return nil
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

// drop removes a database together with whoever is connected to it.
func (s *server) drop(ctx context.Context, name string) error {
	if err := s.admin(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("drop the test's database: %w", err)
	}
	return nil
}

// admin runs one statement outside of the tests' databases. It opens a
// connection each time, which costs two milliseconds and, unlike a pool, leaves
// no goroutine behind for the tests' leak checks to find.
func (s *server) admin(ctx context.Context, sql string) error {
	pg, err := s.started()
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, pg.URL())
	if err != nil {
		return s.explain(pg, err)
	}
	_, err = conn.Exec(ctx, sql)
	if err != nil {
		err = s.explain(pg, err)
	}
	return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}

// explain adds to a failure that the server is gone, if that is the cause.
func (s *server) explain(pg *localpg.Server, err error) error {
	select {
	case <-pg.Done():
		return fmt.Errorf("%w (%w)", err, pg.Err())
	default:
		return err
	}
}

// url is the address of one of the server's databases.
func (s *server) url(name string) string {
	pg, err := s.started()
	if err != nil {
		return "" // not reached: nobody has a name without a server
	}
	return localpg.DatabaseURL(pg.URL(), name)
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
