// Package cli holds what all commands share: their streams, settings and exit
// statuses, how they print results, and the open database that they work on.
package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/buildinfo"
	"github.com/ledgerfeed/ledgerfeed/internal/cell"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/settings"
	"github.com/ledgerfeed/ledgerfeed/internal/similar"
	"github.com/ledgerfeed/ledgerfeed/internal/textfile"
	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/access/consolelink"
)

// Env is the environment of a command.
type Env struct {
	In          io.Reader
	Out, ErrOut io.Writer // results; messages and progress
	Clock       func() time.Time
	Rules       projections.Rules // zero: this program's own
	Environ     []string          // NAME=value, a later one counts; nil: this process's

	// Run sets these before a command's work begins.
	Settings settings.Settings
	Logger   *slog.Logger
	Traces   *tracing.Traces // nil: off

	Cells cell.Set // of LEDGERFEED_CELLS; empty: there is one database
	Cell  string   // the name of the one that the command works on; empty: none, or there is one database

	JSON    bool   // --json
	dataDir string // --data-dir
	config  string // --config
	inCell  string // --cell
	file    *settings.File
	started bool // see Started
	reading bool // see RunReading
	several bool // the command does its work in all cells, one after the other
}

// AddFlags adds the flags that every command has.
func (e *Env) AddFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&e.JSON, "json", false, "machine-readable output on standard output")
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
			return &UsageError{err}
		}
		e.Settings = s
		e.Logger = e.Settings.Logger(e.ErrOut)
		if err := e.startTraces(cmd.Context()); err != nil {
			return err
		}
		defer e.Traces.Close(cmd.Context())
		for _, sentence := range settings.Mistyped(e.Environment()) {
			e.Logger.WarnContext(cmd.Context(), sentence)
		}
		e.started = true
		err = e.inCells(cmd, func(ctx context.Context) error { return work(ctx, args) })
		if cmd.Context().Err() != nil && errors.Is(err, context.Canceled) {
			return fmt.Errorf("interrupted: %w", err)
		}
		return err
	}
}

// startTraces begins to send traces if the environment names a receiver.
func (e *Env) startTraces(ctx context.Context) (err error) {
	if !tracing.Configured(e.Environment()) {
		return nil
	}
	e.Logger = slog.New(tracing.LogHandler(e.Logger.Handler()))
	e.Traces, err = tracing.Start(ctx, tracing.Config{Version: buildinfo.Read().Version, Logger: e.Logger})
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

// Environment is the environment of the command, in the form of os.Environ.
func (e *Env) Environment() []string {
	if e.Environ == nil {
		return os.Environ()
	}
	return e.Environ
}

// Getenv returns a variable of the command's environment; empty: it is not set.
func (e *Env) Getenv(variable string) (value string) {
	for _, s := range e.Environment() {
		if name, v, _ := strings.Cut(s, "="); name == variable {
			value = v
		}
	}
	return value
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

// Started tells whether a command's own work has begun. Errors before that are
// errors of usage.
func (e *Env) Started() bool { return e.started }

// Print writes a command's result to Out: v as one line of JSON with --json, and
// otherwise what text writes.
func (e *Env) Print(v any, text func(io.Writer) error) error {
	if !e.JSON {
		return text(e.Out)
	}
	enc := json.NewEncoder(e.Out)
	enc.SetEscapeHTML(false)
	if e.several {
		v = ofCell{e.Cell, v}
	}
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("cannot write the result: %w", err)
	}
	return nil
}

// Confirm asks the person whether to go on, unless a flag --yes has said so.
func (e *Env) Confirm(about string) error {
	fmt.Fprintf(e.ErrOut, "%s\nType yes to go on: ", about)
	answer, err := bufio.NewReader(e.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("cannot read the answer: %w", err)
	}
	if strings.TrimSpace(answer) != "yes" {
		return errors.New("nothing was changed: the answer was not yes; in scripts, --yes goes on without asking")
	}
	return nil
}

// Printable replaces what could move a terminal's cursor in a text that others have chosen.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, text)
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

// Exit statuses (docs/contract/decisions.md, "Commands").
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitUsage  = 2
)

// UsageError is a command that was called wrongly, whatever the database holds.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// ExitError ends the program with a status, without a message.
type ExitError struct{ Status int }

func (e *ExitError) Error() string { return fmt.Sprintf("exit status %d", e.Status) }

// Usagef makes a UsageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// FlagError replaces pflag's message about a flag of a wrong form, which is
// that of Go's parsers, by one that names the form wanted, and that about an unknown
// flag by one that names the flag that was meant.
func FlagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && cmd.HasSubCommands() {
		// The flag may be one of the command that was meant.
		if err := NoSuchCommand(cmd, cmd.Flags().Args()); err != nil {
			return err
		}
		if name := unknown.GetSpecifiedName(); hasFlag(cmd, name) {
			return Usagef("--%s is a flag of its commands: name one of them first: %s", name, strings.Join(commandNames(cmd), ", "))
		}
	}
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		name := "--" + unknown.GetSpecifiedName()
		return Usagef("there is no flag %s%s", name, similar.Hint(name, names))
	}
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	want := map[string]string{
		"int": "a whole number", "int64": "a whole number", "float64": "a number",
		"duration": "a time such as 90s, 15m, 12h or 30d", "bool": "true or false",
	}[invalid.GetFlag().Value.Type()]
	if want == "" {
		return err
	}
	return Usagef("--%s is %q: want %s", invalid.GetFlag().Name, invalid.GetValue(), want)
}

// hasFlag reports whether one of a command's own commands has a flag.
func hasFlag(cmd *cobra.Command, name string) bool {
	return name != "" && slices.ContainsFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Flags().Lookup(name) != nil || hasFlag(c, name) })
}

// Group makes a command that only holds others.
func Group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Args: NoSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Usagef("name one of its commands: %s", strings.Join(commandNames(cmd), ", "))
		},
	}
	c.AddCommand(commands...)
	return c
}

// ExactArgs is the Args of a command that takes so many.
func ExactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == n:
			return nil
		case len(args) > n:
			return Usagef("there is an argument too many, %q", args[n])
		}
		_, names, _ := strings.Cut(cmd.Use, " ")
		return Usagef("want %s", names)
	}
}

// NoSuchCommand is the Args of a command that holds others: an argument is a command
// that does not exist.
func NoSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return Usagef("there is no command %q%s", args[0], similar.Hint(args[0], commandNames(cmd)))
}

func commandNames(cmd *cobra.Command) (names []string) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
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

// KeyVariable has the API key of commands that ask a service, where --key-file is not
// given.
const KeyVariable = "LEDGERFEED_KEY"

// APIKey reads the API key of a file, or without one that of the environment. It is never on
// the command line, which others can see.
func (e *Env) APIKey(file string) (string, error) {
	if file == "" {
		if key := strings.TrimSpace(e.Getenv(KeyVariable)); key != "" {
			return key, nil
		}
		return "", Usagef("want an API key with events:read, in --key-file or %s", KeyVariable)
	}
	text, err := textfile.Read(file)
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(text))
	if key == "" || strings.ContainsAny(key, " \t\r\n") {
		return "", fmt.Errorf("%s has no API key: want one line", file)
	}
	return key, nil
}
