package measure

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// Database is a fresh, migrated database that a benchmark has to itself.
type Database struct {
	*Options
	URL      string
	Pool     *pg.Pool
	Notifier *eventlog.Notifier
	Log      *eventlog.Log
}

// databaseURL is the address of another database of the server at an address, which is a
// URL or has PostgreSQL's keywords.
func databaseURL(address, database string) (string, error) {
	if !strings.Contains(address, "://") {
		return address + " dbname=" + database, nil // the last one counts
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.New("DATABASE_URL is no address of a database") // without err, which can have a password
	}
	u.Path, u.RawPath = "/"+database, ""
	if query := u.Query(); query.Has("dbname") || query.Has("database") {
		query.Del("dbname")
		query.Del("database")
		u.RawQuery = query.Encode()
	}
	return u.String(), nil
}

// dropTimeout bounds the removal of the database at the end.
const dropTimeout = time.Minute

// InDatabase runs work in a fresh database and drops it afterwards. The context
// that work gets ends with it, and with that whatever work has started.
func InDatabase(ctx context.Context, o *Options, work func(context.Context, *Database) error) (err error) {
	o.databases++
	name := fmt.Sprintf("ledgerfeed_bench_%d_%d", os.Getpid(), o.databases)
	address, err := databaseURL(o.ServerURL, name)
	if err != nil {
		return err
	}
	server, err := pg.Connect(ctx, o.ServerURL)
	if err != nil {
		return fmt.Errorf("cannot connect to the server: %w", err)
	}
	defer func() { _ = server.Close(context.WithoutCancel(ctx)) }()
	if _, err := server.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return fmt.Errorf("cannot make a database to measure in: %w", err)
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTimeout)
		defer cancel()
		if _, derr := server.Exec(clean, "DROP DATABASE "+name+" WITH (FORCE)"); err == nil && derr != nil {
			err = fmt.Errorf("cannot drop the benchmark's database: %w", derr)
		}
	}()
	db := &Database{Options: o, URL: address}
	if _, err := migrations.Up(ctx, db.URL); err != nil {
		return err
	}
	if db.Pool, err = pg.Open(ctx, db.URL, pg.Options{MaxConns: 24}); err != nil {
		return err
	}
	defer db.Pool.Close()
	db.Notifier = eventlog.NewNotifier(db.Pool, NoLogger())
	if db.Log, err = eventlog.New(eventlog.Config{Pool: db.Pool, Clock: time.Now, Notify: db.Notifier.Notify}); err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	return work(working, db)
}

// Quiesce makes the database do now what the measurement before has left to it,
// so that the next one does not pay for it.
func (db *Database) Quiesce(ctx context.Context) error {
	for _, sql := range []string{"VACUUM (ANALYZE)", "CHECKPOINT"} {
		if _, err := db.Pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("cannot run %s: %w", sql, err)
		}
	}
	return nil
}

// DoNotWaitForDisk lets commits return before they are on disk.
func (db *Database) DoNotWaitForDisk(ctx context.Context) error {
	_, err := db.Pool.Exec(ctx, `
		DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$`)
	if err != nil {
		return fmt.Errorf("cannot turn synchronous_commit off: %w", err)
	}
	db.Pool.Reset() // it holds for connections made from now on
	return nil
}
