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
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ledgerfeed/ledgerfeed/internal/settings"
	"github.com/ledgerfeed/ledgerfeed/projections"
)

// Env is the environment of a command.
type Env struct {
	In          io.Reader
	Out, ErrOut io.Writer // results; messages and progress
	Clock       func() time.Time
	Rules       projections.Rules // zero: this program's own

	// Run sets these before a command's work begins.
	Settings settings.Settings
	Logger   *slog.Logger

	JSON    bool   // --json
	dataDir string // --data-dir
	started bool   // see Started
}

// AddFlags adds the flags that every command has.
func (e *Env) AddFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&e.JSON, "json", false, "machine-readable output on standard output")
	flags.StringVar(&e.dataDir, "data-dir", "", "directory of the program's own PostgreSQL (LEDGERFEED_DATA_DIR, default .ledgerfeed)")
}

// Run returns the RunE of a command: it reads the settings and then does the
// work. From there on an error is a failure, unless it is a UsageError.
func (e *Env) Run(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := settings.Read(os.Environ())
		if err != nil {
			return &UsageError{err}
		}
		if e.dataDir != "" {
			s.DataDir = e.dataDir
		}
		e.Settings = s
		e.Logger = s.Logger(e.ErrOut)
		e.started = true
		err = work(cmd.Context(), args)
		if cmd.Context().Err() != nil && errors.Is(err, context.Canceled) {
			return fmt.Errorf("interrupted: %w", err)
		}
		return err
	}
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
