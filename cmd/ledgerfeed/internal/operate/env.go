// Package operate holds what the commands share that operate a service: their settings, the cell
// that they work in (docs/operations/cells.md), and the open database.
package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/settings"
	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/access/consolelink"
)

// Env is the environment of a command.
type Env struct {
	cli.Env
	Rules projections.Rules // zero: this program's own

	// Run sets these before a command's work begins.
	Settings settings.Settings
	Traces   *tracing.Traces // nil: off

	Cells Cells  // of LEDGERFEED_CELLS; empty: there is one database
	Cell  string // the name of the one that the command works on; empty: none, or there is one database

	dataDir string // --data-dir
	config  string // --config
	inCell  string // --cell
	file    *settings.File
	reading bool // see RunReading
	several bool // the command does its work in all cells, one after the other
}

// AddFlags adds the flags that every command has.
func (e *Env) AddFlags(flags *pflag.FlagSet) {
	e.Env.AddFlags(flags)
	flags.StringVar(&e.config, "config", "", "a file with settings (YAML); the environment takes precedence")
	flags.StringVar(&e.inCell, "cell", "", "the cell to work on, by its name in LEDGERFEED_CELLS (default: the cell of the workspace that a flag names)")
	flags.StringVar(&e.dataDir, "data-dir", "", "directory of the program's own PostgreSQL (LEDGERFEED_DATA_DIR, default .ledgerfeed)")
}

// Run returns the RunE of a command: it reads the settings and then does the
// work. From there on an error is a failure, unless it is a UsageError.
func (e *Env) Run(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := e.readSettings()
		if err != nil {
			return &cli.UsageError{Err: err}
		}
		e.Settings = s
		e.Logger = cli.NewLogger(e.ErrOut, s.LogFormat, s.LogLevel)
		if err := e.startTraces(cmd.Context()); err != nil {
			return err
		}
		defer e.Traces.Close(cmd.Context())
		for _, sentence := range settings.Mistyped(e.Environment()) {
			e.Logger.WarnContext(cmd.Context(), sentence)
		}
		e.Start()
		err = e.inCells(cmd, func(ctx context.Context) error { return work(ctx, args) })
		return e.explainConnection(cli.Interrupted(cmd.Context(), err))
	}
}

// startTraces begins to send traces if the environment names a receiver.
func (e *Env) startTraces(ctx context.Context) (err error) {
	if !tracing.Configured(e.Environment()) {
		return nil
	}
	e.Logger = slog.New(tracing.LogHandler(e.Logger.Handler()))
	e.Traces, err = tracing.Start(ctx, tracing.Config{Version: cli.ReadBuildInfo().Version, Logger: e.Logger})
	return err
}

// RunReading is Run for a command that only reads, or changes what is there: where there is
// no database it says so, and makes none.
func (e *Env) RunReading(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	run := e.Run(work)
	return func(cmd *cobra.Command, args []string) error {
		e.reading = true
		return run(cmd, args)
	}
}

// RunServing is Run for a command that serves. A log in JSON ends with the error that ended the
// process, as a record: what collects the log reads no other lines. People who read a log in text, or
// called the command wrongly, get the plain message of other commands.
func (e *Env) RunServing(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	run := e.Run(work)
	return func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		_, usage := errors.AsType[*cli.UsageError](err)
		_, said := errors.AsType[*cli.ExitError](err)
		if err == nil || usage || said || e.Settings.LogFormat != "json" {
			return err
		}
		e.Logger.ErrorContext(cmd.Context(), "an error has ended this process", "error", err)
		return &cli.ExitError{Status: cli.ExitFailed}
	}
}

// Set sets a setting as if the environment had it, so that Again names it too.
func Set(e *Env, variable, value string) error {
	e.Environ = append(e.Environment(), variable+"="+value)
	var err error
	if e.Settings, err = e.readSettings(); err != nil {
		return fmt.Errorf("cannot set %s: %w", variable, err)
	}
	if e.Cell == "" {
		return nil
	}
	c, err := e.Cells.Named(e.Cell)
	e.enter(&c)
	return err
}

// readSettings reads the settings of the environment, of --config and of --data-dir.
func (e *Env) readSettings() (s settings.Settings, err error) {
	if e.config != "" {
		if e.file, err = settings.ReadFile(e.config); err != nil {
			return s, err
		}
	}
	if s, err = settings.Read(e.Environment(), e.file); err != nil {
		return s, err
	}
	if e.dataDir != "" {
		s.DataDir = e.dataDir
	}
	e.Cells, err = readCells(&s)
	return s, err
}

// ConfigFile is the file of --config; empty: none.
func (e *Env) ConfigFile() string { return e.config }

// InForce lists the settings as they are in force.
func (e *Env) InForce() []settings.InForce {
	list := e.Settings.List(e.Environment(), e.file)
	for i := range list {
		if e.dataDir != "" && list[i].Variable == "LEDGERFEED_DATA_DIR" {
			list[i].Value, list[i].From = e.dataDir, "--data-dir"
		}
	}
	return list
}

// Print prints a command's result as the frame does. With several cells it labels each result.
func (e *Env) Print(v any, text func(io.Writer) error) error {
	if e.several {
		v = ofCell{e.Cell, v}
	}
	return e.Env.Print(v, text)
}

// Deps is an open database with what commands do their work with.
type Deps struct {
	env *Env
	*Database
	Pool     *pg.Pool
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
// a *keyring.MissingError when the database needs other keys than there are.
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
	return consolelink.New(consolelink.Config{Pool: d.Pool, Cell: d.env.Cell, URL: base, Clock: d.env.Clock})
}

// BrandNotice says which brand keys will have, where the setting was not given and there is no key
// yet, because it cannot be changed afterwards; empty: there is nothing to say.
func BrandNotice(ctx context.Context, of brand.Brand, pool pg.DB) (string, error) {
	if of != (brand.Brand{}) {
		return "", nil
	}
	var keys bool
	if err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM api_key)`).Scan(&keys); err != nil || keys {
		return "", err
	}
	return fmt.Sprintf("API keys, the User-Agent and the header names of webhooks begin with %s, because LEDGERFEED_BRAND is not set; it cannot be changed once there are keys", of), nil
}

// FirstStep says how to begin on a database without a workspace; empty: there is one.
func FirstStep(ctx context.Context, pool pg.DB) (string, error) {
	var there bool
	if err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM workspace)`).Scan(&there); err != nil || there {
		return "", err
	}
	return "there is no workspace yet. Create one, and a key for those who read it: ledgerfeed workspace create --id acme, then ledgerfeed key create --workspace acme --name reader --scopes invoices:read", nil
}
