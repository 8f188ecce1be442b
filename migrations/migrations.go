// Package migrations holds the numbered SQL files of the schema and applies them.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

//go:embed 0*.sql
var embedded embed.FS

// A migration statement that waits for a table lock blocks everyone who comes after it. So it waits
// at most lockTimeout. Its file is retried after lockPause, in which the others proceed, up to
// lockAttempts attempts in total.
const (
	lockTimeout  = 2 * time.Second
	lockPause    = 3 * time.Second
	lockAttempts = 12
)

// Up brings the schema of the database at url to this program's version and returns the names of
// the files it applied. A lock lets any number of starting processes call it at the same time. Each
// file runs in one transaction, so the next run finishes an interrupted one. Errors: *LockedError
// if another transaction keeps a table locked; *pg.EncodingError if the database is not UTF8.
func Up(ctx context.Context, url string) (applied []string, err error) {
	return upTo(ctx, url, embedded)
}

// upTo is Up with other files.
func upTo(ctx context.Context, url string, files fs.FS) (applied []string, err error) {
	for attempt := 1; ; attempt++ {
		names, err := up(ctx, url, files)
		applied = append(applied, names...)
		switch {
		case err == nil:
			return applied, nil
		case pg.Forbidden(err):
			return applied, fmt.Errorf("migrate: this account of PostgreSQL may not change the tables; the owner of the tables runs ledgerfeed migrate: %w", err)
		case !pg.Locked(err):
			return applied, fmt.Errorf("migrate: %w", err)
		case attempt == lockAttempts:
			return applied, &LockedError{err}
		case !flow.Sleep(ctx, lockPause):
			return applied, fmt.Errorf("migrate: %w", context.Cause(ctx))
		}
	}
}

// LockedError says that a migration could not be applied because another transaction held a lock.
type LockedError struct{ err error }

func (e *LockedError) Error() string {
	return fmt.Sprintf("migrate: another transaction kept a table locked, also after %d attempts in %v; what was applied before stays, "+
		"and the next run goes on: ledgerfeed doctor lists long transactions (%v)", lockAttempts, lockAttempts*(lockTimeout+lockPause), e.err)
}

// Unwrap returns the database's error.
func (e *LockedError) Unwrap() error { return e.err }

func up(ctx context.Context, url string, files fs.FS) (applied []string, err error) {
	if err := checkServer(ctx, url); err != nil {
		return nil, err
	}
	// Look first: an account that may not change tables can still serve an up-to-date schema.
	missing, err := missingOf(ctx, url, files)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		if applied, err = apply(ctx, url, files); err != nil {
			return applied, err
		}
	}
	return applied, nil
}

// apply applies the files that are missing.
func apply(ctx context.Context, url string, files fs.FS) (applied []string, err error) {
	// The URL may set timeouts that are meant for everything else.
	settings := map[string]string{"lock_timeout": pg.Milliseconds(lockTimeout), "statement_timeout": "0", "idle_in_transaction_session_timeout": "0"}
	err = with(url, files, settings, func(provider *goose.Provider) error {
		results, err := provider.Up(ctx)
		var partial *goose.PartialError
		if errors.As(err, &partial) {
			results = partial.Applied
		}
		for _, r := range results {
			if r.Error == nil {
				applied = append(applied, r.Source.Path)
			}
		}
		return err //nolint:wrapcheck // wrapped by Up
	})
	return applied, err
}

// look asks the database at url what it answers at once, on a connection of its own.
func look(ctx context.Context, url string, ask func(context.Context, *pgx.Conn) error) (err error) {
	conn, err := pg.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	return atOnce(ctx, conn, func(ctx context.Context) error { return ask(ctx, conn) })
}

// atOnce limits what the server answers at once.
func atOnce(ctx context.Context, conn *pgx.Conn, ask func(context.Context) error) error {
	return pg.Within(ctx, conn.Config().ConnectTimeout, ask)
}

// checkServer refuses versions of PostgreSQL that are too old.
func checkServer(ctx context.Context, url string) error {
	var (
		major int
		text  string
	)
	err := look(ctx, url, func(ctx context.Context, conn *pgx.Conn) (err error) {
		major, text, err = pg.ServerVersion(ctx, conn)
		return err
	})
	if err != nil {
		return fmt.Errorf("ask for the version of PostgreSQL: %w", err)
	}
	if major < pg.OldestServer {
		return fmt.Errorf("the database is PostgreSQL %s; the program needs version %d or newer", text, pg.OldestServer)
	}
	return nil
}

// File is one migration.
type File struct {
	Name string
	SQL  string // the statements that apply it
}

// Missing returns, in order, the migrations of this program that the database at url does not have
// yet. It changes nothing. The error is a *pg.EncodingError if the database has no migrations at
// all and is not UTF8.
func Missing(ctx context.Context, url string) ([]File, error) { return missingOf(ctx, url, embedded) }

func missingOf(ctx context.Context, url string, files fs.FS) ([]File, error) {
	current, err := version(ctx, url)
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(files, "0*.sql") // sorted
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	missing := []File{}
	for _, name := range names {
		n, err := number(name)
		if err != nil {
			return nil, err
		}
		if n <= current {
			continue
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", name, err)
		}
		sql, _, _ := strings.Cut(string(text), "-- +goose Down")
		missing = append(missing, File{name, strings.TrimSpace(sql) + "\n"})
	}
	if current == 0 {
		// A database that already has tables is not checked: it can keep what it has.
		if err := look(ctx, url, func(ctx context.Context, conn *pgx.Conn) error { return pg.CheckEncoding(ctx, conn) }); err != nil {
			return nil, err
		}
	}
	return missing, nil
}

// Fitness says how a database's schema compares with this program's.
type Fitness int

// The results of Fit.
const (
	Absent  Fitness = iota + 1 // never migrated
	Older                      // migrations of this program are missing
	Current                    // the same version
	Newer                      // migrated by a newer program
)

// Fit compares the schema of the database at url with this program. It changes nothing.
func Fit(ctx context.Context, url string) (fit Fitness, err error) {
	current, err := version(ctx, url)
	if err != nil {
		return 0, err
	}
	written, err := newest()
	if err != nil {
		return 0, err
	}
	switch {
	case current == 0:
		return Absent, nil
	case current < written:
		return Older, nil
	case current > written:
		return Newer, nil
	}
	return Current, nil
}

// version returns the number of the last migration that was applied, or 0 if there is none.
func version(ctx context.Context, url string) (current int64, err error) {
	err = look(ctx, url, func(ctx context.Context, conn *pgx.Conn) error {
		var there bool
		if err := conn.QueryRow(ctx, "SELECT to_regclass('goose_db_version') IS NOT NULL").Scan(&there); err != nil || !there {
			return err
		}
		return conn.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version").Scan(&current)
	})
	if err != nil {
		return 0, fmt.Errorf("look at the database's schema: %w", err)
	}
	return current, nil
}

// newest returns the number of this program's last migration.
func newest() (int64, error) {
	names, err := fs.Glob(embedded, "0*.sql")
	if err != nil {
		return 0, fmt.Errorf("read the migrations: %w", err)
	}
	if len(names) == 0 {
		return 0, errors.New("the program holds no migrations")
	}
	return number(names[len(names)-1]) // Glob sorts
}

func number(name string) (int64, error) {
	digits, _, _ := strings.Cut(name, "_")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the name of migration %s: %w", name, err)
	}
	return n, nil
}

// with calls do with a goose provider for the database.
func with(url string, files fs.FS, settings map[string]string, do func(*goose.Provider) error) (err error) {
	cfg, err := pg.ConnConfig(url, settings)
	if err != nil {
		return err
	}
	db := stdlib.OpenDB(*cfg)
	defer func() { err = errors.Join(err, db.Close()) }()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(&locker{url: url}), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	return do(provider)
}
