package cli

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/access/consolelink"
)

// Deps is an open database with what commands do their work with.
type Deps struct {
	env *Env
	*Database
	Pool     *pgxpool.Pool
	Notifier *eventlog.Notifier
	Log      *eventlog.Log
}

// WithDeps opens the database, does the work, and closes it again. Running
// services are notified of what the work appended before it returns.
func (e *Env) WithDeps(ctx context.Context, work func(*Deps) error) (err error) {
	n, err := Connections(e, "a command", pg.LeastConns, depsConnections)
	if err != nil {
		return err
	}
	return WithConnections(ctx, e, n, work)
}

// depsConnections are what commands need.
const depsConnections = 8

// WithConnections is WithDeps with a number of connections.
func WithConnections(ctx context.Context, e *Env, connections int, work func(*Deps) error) (err error) {
	db, err := e.OpenDatabase(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(db.explain(err), db.Close(ctx)) }()
	if err := db.prepare(ctx, e.reading); err != nil {
		return err
	}
	d, err := newDeps(ctx, e, db, connections)
	if err != nil {
		return err
	}
	defer d.Close()
	err = work(d)
	d.Notify(ctx)
	return err
}

// Notify notifies running services of what has been appended so far.
func (d *Deps) Notify(ctx context.Context) {
	if err := d.Notifier.Flush(context.WithoutCancel(ctx)); err != nil {
		d.env.Logger.WarnContext(ctx, "cannot notify running services of new entries; they find them within seconds by polling", "error", err)
	}
}

// Close closes the connections.
func (d *Deps) Close() {
	d.Pool.Close()
}

// NewDeps connects to a database; the caller calls Close.
func (e *Env) NewDeps(ctx context.Context, db *Database) (*Deps, error) {
	n, err := Connections(e, "a command", pg.LeastConns, depsConnections)
	if err != nil {
		return nil, err
	}
	return newDeps(ctx, e, db, n)
}

func newDeps(ctx context.Context, e *Env, db *Database, connections int) (*Deps, error) {
	pool, err := pg.Open(ctx, db.URL, pg.Options{MaxConns: int32(connections), Tracer: e.Traces.Statements()})
	if err != nil {
		return nil, err
	}
	notifier, err := NewNotifier(e, db, pool, nil)
	if err != nil {
		pool.Close()
		return nil, err
	}
	log, err := eventlog.New(eventlog.Config{Pool: pool, Clock: e.Clock, Notify: notifier.Notify, Tracer: e.Traces.Tracer()})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &Deps{env: e, Database: db, Pool: pool, Notifier: notifier, Log: log}, nil
}

// Workspaces returns the store of workspaces.
func (d *Deps) Workspaces() *eventlog.Workspaces { return eventlog.NewWorkspaces(d.Pool, d.env.Clock) }

// Quarantine returns the quarantine of a consumer.
func (d *Deps) Quarantine(consumer string) *eventlog.Quarantine {
	return eventlog.NewQuarantine(d.Pool, consumer, d.env.Clock, d.Notifier.Notify)
}

// Keys returns the store of API keys.
func (d *Deps) Keys() (*access.Store, error) {
	return access.NewStore(access.StoreConfig{Pool: d.Pool, Format: access.NewFormat(d.env.Settings.Brand), Clock: d.env.Clock})
}

// Webhooks returns the store of webhooks, for everything but making secrets.
func (d *Deps) Webhooks() (*delivery.Store, error) { return d.webhooks(nil) }

// WebhooksWithKey returns the store of webhooks, for making secrets too. The error is
// a *secretkey.MissingError when the database needs other keys than there are.
func (d *Deps) WebhooksWithKey(ctx context.Context) (*delivery.Store, error) {
	k, err := d.env.Keyring(ctx, d.Database, d.Pool)
	if err != nil {
		return nil, err
	}
	return d.webhooks(k)
}

func (d *Deps) webhooks(k *keyring.Keyring) (*delivery.Store, error) {
	return delivery.NewStore(delivery.StoreConfig{
		Pool: d.Pool, Keyring: k, Log: d.Log, Notify: d.Notifier.Notify, Clock: d.env.Clock, Settings: d.env.Settings.Delivery(),
	})
}

// ConsoleLinks makes links to the console at the address base.
func (d *Deps) ConsoleLinks(base string) (*consolelink.Maker, error) {
	return consolelink.New(consolelink.Config{Pool: d.Pool, URL: base, Clock: d.env.Clock})
}
