// Package cli holds what all commands share: their streams, settings and exit
// statuses, how they print results, and the open database that they work on.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ledgerfeed/ledgerfeed/internal/buildinfo"
	"github.com/ledgerfeed/ledgerfeed/internal/settings"
	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
	"github.com/ledgerfeed/ledgerfeed/projections"
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

	JSON    bool   // --json
	dataDir string // --data-dir
	config  string // --config
	file    *settings.File
	started bool // see Started
	reading bool // see RunReading
}

// AddFlags adds the flags that every command has.
func (e *Env) AddFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&e.JSON, "json", false, "machine-readable output on standard output")
	flags.StringVar(&e.config, "config", "", "a file with settings (YAML); the environment takes precedence")
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
		err = work(cmd.Context(), args)
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
	return nil
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
	if s, err = settings.Read(e.Environment(), e.file); err == nil && e.dataDir != "" {
		s.DataDir = e.dataDir
	}
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
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("cannot write the result: %w", err)
	}
	return nil
}
