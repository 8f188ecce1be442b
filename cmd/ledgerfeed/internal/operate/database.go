package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/localpg"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// Database is the one that a command works on: at DATABASE_URL, or in the
// program's own PostgreSQL.
type Database struct {
	URL    string
	Direct string          // of PostgreSQL itself, for what needs a session; empty: as URL
	Pooled bool            // URL leads to a pooler in transaction mode
	local  *localpg.Server // nil with a DATABASE_URL
}

// OpenDatabase returns the database of the settings. The program's own
// PostgreSQL is started unless another process runs it already. A command that
// serves takes it over when that process ends.
func (e *Env) OpenDatabase(ctx context.Context, serves bool) (*Database, error) {
	if len(e.Cells) > 0 && e.Cell == "" {
		return nil, e.needsCell()
	}
	if set := &e.Settings; set.DatabaseURL != "" {
		db := &Database{URL: set.DatabaseURL, Direct: set.ListenURL, Pooled: set.Pooler != ""}
		if db.Pooled {
			db.URL = pg.ThroughPooler(db.URL)
		}
		return db, nil
	}
	if e.reading {
		if err := e.mustExist(); err != nil {
			return nil, err
		}
	}
	server, err := localpg.Open(ctx, localpg.Config{DataDir: e.Settings.DataDir, Logger: e.Logger, TakeOver: serves})
	if err != nil {
		return nil, ownServerError(e.Settings.DataDir, err)
	}
	return &Database{URL: server.URL(), local: server}, nil
}

// mustExist is an error where the program's own PostgreSQL has no data yet.
func (e *Env) mustExist() error {
	exists, err := localpg.Exists(e.Settings.DataDir)
	if err != nil {
		return ownServerError(e.Settings.DataDir, err)
	}
	if !exists {
		dir := e.Settings.DataDir
		if whole, err := filepath.Abs(dir); err == nil {
			dir = whole
		}
		return fmt.Errorf("there is no database in %s yet. If there is one in another directory, go there, or name it with --data-dir or DATABASE_URL; ledgerfeed serve or demo makes a new one", dir)
	}
	return nil
}

// ownServerError names the directory, which may be the cause.
func ownServerError(dataDir string, err error) error {
	if full, ok := errors.AsType[*localpg.DiskFullError](err); ok {
		return full
	}
	return fmt.Errorf("the program's own PostgreSQL, with its data in LEDGERFEED_DATA_DIR or --data-dir, which is %q: %w", dataDir, err)
}

// closeTimeout bounds the wait for the program's own PostgreSQL to stop.
const closeTimeout = 30 * time.Second

// Close releases the program's own PostgreSQL. If this process started it, it
// stops once commands beside it have ended, or have been waited for long enough.
// With a DATABASE_URL it does nothing.
func (d *Database) Close(ctx context.Context) error {
	if d.local == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := d.local.Close(ctx); err != nil {
		return fmt.Errorf("cannot stop the program's own PostgreSQL: %w", err)
	}
	return nil
}

// Name names the database for people: its server and name, or where the program's own PostgreSQL keeps
// its data.
func (d *Database) Name() string {
	if d.local != nil {
		return "the program's own PostgreSQL in " + d.local.DataDir()
	}
	c, err := pgconn.ParseConfig(d.URL)
	if err != nil {
		return "DATABASE_URL"
	}
	return c.Database + " at " + pg.Server(c)
}

// IsLocal tells whether the database is in the program's own PostgreSQL.
func (d *Database) IsLocal() bool { return d.local != nil }

// DataDir is the directory that the program's own PostgreSQL really uses, which
// for root may not be the one of the settings; fallback with a DATABASE_URL.
func (d *Database) DataDir(fallback string) string {
	if d.local == nil {
		return fallback
	}
	return d.local.DataDir()
}

// ForgottenList is the name of the file in which person forget keeps who was forgotten.
func (e *Env) ForgottenList(d *Database) string {
	return filepath.Join(d.DataDir(e.Settings.DataDir), "forgotten.ndjson")
}

// errStopped reports that the program's own PostgreSQL is gone.
var errStopped = errors.New("the program's own PostgreSQL has stopped. Start the program again: PostgreSQL then recovers by itself")

// Watch returns when ctx ends, or with an error when the program's own
// PostgreSQL stops before that.
func (d *Database) Watch(ctx context.Context) error {
	if d.local == nil {
		<-ctx.Done()
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case <-d.local.Done():
		err := d.local.Err()
		if full, ok := errors.AsType[*localpg.DiskFullError](err); ok {
			return full
		}
		return fmt.Errorf("%w (%w)", errStopped, err)
	}
}

// explain adds to an error of work on the database that the program's own
// PostgreSQL has stopped, if it has.
func (d *Database) explain(err error) error {
	if d.local == nil {
		return err
	}
	return d.local.Explain(err)
}

// Migrate brings the schema up to date and returns what it applied.
func (d *Database) Migrate(ctx context.Context) ([]string, error) {
	return migrations.Up(ctx, cmp.Or(d.Direct, d.URL))
}

// prepare makes the schema fit this program. A fresh database and the program's
// own are migrated by whichever command comes first; another one, which other
// programs may be using, only by serve, demo and migrate. A command that only reads
// does not make the tables of a fresh one.
func (d *Database) prepare(ctx context.Context, reading bool) error {
	if d.local == nil {
		fit, err := migrations.Fit(ctx, d.URL)
		if err != nil {
			return err
		}
		switch fit {
		case migrations.Current, migrations.Newer:
			return nil
		case migrations.Older:
			return errors.New("the database's schema is older than this program: run ledgerfeed migrate")
		case migrations.Absent:
			if reading {
				return errors.New("the database at DATABASE_URL has no tables of this program yet: ledgerfeed migrate makes them")
			}
		}
	}
	_, err := d.Migrate(ctx)
	return err
}

// explainConnection replaces an error about the address of the database, or about the
// connection to it, by one that names the setting and the address, once, and what to do.
// Other errors stay as they are.
func (e *Env) explainConnection(err error) error {
	if pooler, ok := errors.AsType[*pg.PoolerError](err); ok {
		return pooler
	}
	if err == nil || e.Settings.DatabaseURL == "" {
		return err
	}
	setting, named := "DATABASE_URL", "which DATABASE_URL names"
	if e.Cell != "" {
		setting, named = "LEDGERFEED_CELLS", "the cell "+e.Cell
	}
	return cmp.Or(pg.ExplainConnection(err, setting, named), e.explainRights(err), e.explainSilence(err, named), err)
}

// explainSilence adds to a *pg.SilentError which database it was, and what to do; nil: err has another
// cause.
func (e *Env) explainSilence(err error, named string) error {
	_, silent := errors.AsType[*pg.SilentError](err)
	if c, perr := pgconn.ParseConfig(e.Settings.DatabaseURL); silent && perr == nil {
		return fmt.Errorf("%w; check that the database %s at %s, %s, works, and that nothing between drops its answers", err, c.Database, pg.Server(c), named)
	}
	return nil
}

// explainRights adds to PostgreSQL's refusal the account that lacks rights, and the roles that have
// them; nil: err has another cause, such as a trigger that guards the log.
func (e *Env) explainRights(err error) error {
	if !pg.Forbidden(err) || !strings.Contains(err.Error(), "permission denied for ") {
		return nil
	}
	account := "in DATABASE_URL"
	if c, perr := pgconn.ParseConfig(e.Settings.DatabaseURL); perr == nil {
		account = c.User
	}
	return fmt.Errorf("%w; the account %s lacks a role: ledgerfeed_owner for migrate, ledgerfeed_writer for append alone, ledgerfeed_auditor for verify, export, explain, anomaly list and status, ledgerfeed_service for serve and all else (docs/operations/roles.md)", err, account)
}

// Connections is how many connections to the database this process may have, all pools and
// single ones together: most, or what LEDGERFEED_CONNECTIONS allows or pool_max_conns in
// DATABASE_URL, the smallest of them. The error is a UsageError: it names the setting that allows
// fewer than least, and who, the command that needs them.
func Connections(e *Env, who string, least, most int) (int, error) {
	inURL, err := pg.MaxConns(e.Settings.DatabaseURL)
	if err != nil {
		return 0, &cli.UsageError{Err: err}
	}
	for _, bound := range []struct {
		name string
		n    int
	}{{"LEDGERFEED_CONNECTIONS", int(e.Settings.Connections)}, {"pool_max_conns in DATABASE_URL", inURL}} {
		if bound.n == 0 {
			continue
		}
		if bound.n < least {
			return 0, cli.Usagef("%s is %d: %s needs at least %d connections to the database, and uses up to %d (docs/operations/sizing.md)", bound.name, bound.n, who, least, most)
		}
		most = min(most, bound.n)
	}
	return most, nil
}

// NewNotifier makes what notifies other processes, and hears of them, where it is not behind
// a pooler or there is a way past that. The parameters are of the connection past the pooler.
// The error names the setting.
func NewNotifier(e *Env, db *Database, pool pg.DB, parameters map[string]string) (*eventlog.Notifier, error) {
	n := eventlog.NewNotifier(pool, e.Logger)
	switch {
	case db.Direct != "":
		cfg, err := pg.ConnConfig(db.Direct, parameters)
		if err != nil {
			return nil, fmt.Errorf("LEDGERFEED_LISTEN_DATABASE_URL: %w", err)
		}
		n.ListenAt(cfg)
	case db.Pooled:
		n.ListenAt(nil)
	}
	return n, nil
}
