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

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

//go:embed 0*.sql
var files embed.FS

// Up brings the schema of the database at url to this program's version. A
// session lock lets any number of starting processes call it side by side;
// each file runs in one transaction, so an interrupted run is finished by the
// next one. It returns the names of the files it applied.
func Up(ctx context.Context, url string) (applied []string, err error) {
	err = with(url, func(provider *goose.Provider) error {
		results, err := provider.Up(ctx)
		for _, r := range results {
			if r.Error == nil {
				applied = append(applied, r.Source.Path)
			}
		}
		return err //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return applied, fmt.Errorf("migrate: %w", err)
	}
	return applied, nil
}

// Fitness says how the schema of a database stands to this program.
type Fitness int

// How a schema can stand to this program.
const (
	Absent  Fitness = iota + 1 // never migrated
	Older                      // migrations of this program are missing
	Current                    //
	Newer                      // migrated by a newer program
)

// Fit looks at the schema of the database at url, and changes nothing.
func Fit(ctx context.Context, url string) (fit Fitness, err error) {
	conn, err := pg.Connect(ctx, url)
	if err != nil {
		return 0, fmt.Errorf("look at the database's schema: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	var (
		there            bool
		current, written int64
	)
	if err := conn.QueryRow(ctx, "SELECT to_regclass('goose_db_version') IS NOT NULL").Scan(&there); err != nil {
		return 0, fmt.Errorf("look at the database's schema: %w", err)
	}
	if there {
		if err := conn.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version").Scan(&current); err != nil {
			return 0, fmt.Errorf("look at the database's schema: %w", err)
		}
	}
	if written, err = newest(); err != nil {
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

// newest is the number of the last migration of this program.
func newest() (int64, error) {
	names, err := fs.Glob(files, "0*.sql")
	if err != nil {
		return 0, fmt.Errorf("read the migrations: %w", err)
	}
	if len(names) == 0 {
		return 0, errors.New("the program holds no migrations")
	}
	number, _, _ := strings.Cut(names[len(names)-1], "_") // Glob sorts
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the name of migration %s: %w", names[len(names)-1], err)
	}
	return n, nil
}

// with opens the database for goose.
func with(url string, do func(*goose.Provider) error) (err error) {
	cfg, err := pg.ParseConfig(url)
	if err != nil {
		return err
	}
	db := stdlib.OpenDB(*cfg.ConnConfig)
	defer func() { err = errors.Join(err, db.Close()) }()
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return fmt.Errorf("prepare the migration lock: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	return do(provider)
}
