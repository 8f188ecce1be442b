package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ledgerfeed/ledgerfeed/projections"
)

// Exit statuses (docs/contract/decisions.md, "Commands").
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError is a command that was called wrongly, whatever the world holds.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// program is what the commands share.
type program struct {
	in          io.Reader
	out, errOut io.Writer
	clock       func() time.Time
	logger      *slog.Logger
	settings    settings
	rules       projections.Rules // zero: this program's own

	json    bool   // --json
	dataDir string // --data-dir
	began   bool   // a command's own work has begun; before, every error is one of usage
}

func execute(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	p := &program{in: in, out: out, errOut: errOut, clock: time.Now}
	return p.execute(ctx, args)
}

func (p *program) execute(ctx context.Context, args []string) int {
	root := p.rootCommand()
	root.SetArgs(args)
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.errOut)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	var usage *usageError
	if !p.began || errors.As(err, &usage) {
		fmt.Fprintf(p.errOut, "%s: %v\nSee %s --help.\n", cmd.CommandPath(), err, cmd.CommandPath())
		return exitUsage
	}
	fmt.Fprintf(p.errOut, "%s: %v\n", cmd.CommandPath(), err)
	return exitFailed
}

// flagFault says what a flag wants; what pflag adds is how Go's parsers put it.
func flagFault(_ *cobra.Command, err error) error {
	var wrong *pflag.InvalidValueError
	if !errors.As(err, &wrong) {
		return err
	}
	want := map[string]string{
		"int": "a whole number", "int64": "a whole number", "float64": "a number",
		"duration": "a time such as 90s, 15m or 720h", "bool": "true or false",
	}[wrong.GetFlag().Value.Type()]
	if want == "" {
		return err
	}
	return usagef("--%s is %q: want %s", wrong.GetFlag().Name, wrong.GetValue(), want)
}

func (p *program) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "ledgerfeed",
		Short: "Billing data for readers: an event log, read models, a read-only API, webhooks",
		Long: `Ledgerfeed keeps an append-only event log in PostgreSQL, folds it into read
models, serves them over a read-only HTTP API, and sends signed webhooks.

Start with:  ledgerfeed demo

Every command uses the database at DATABASE_URL. Without it, it uses a
PostgreSQL that the program itself starts and stops, in --data-dir.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.began = true
			return cmd.Help()
		},
	}
	root.SetFlagErrorFunc(flagFault)
	flags := root.PersistentFlags()
	flags.BoolVar(&p.json, "json", false, "machine-readable output on standard output")
	flags.StringVar(&p.dataDir, "data-dir", "", "directory of the program's own PostgreSQL (LEDGERFEED_DATA_DIR, default .ledgerfeed)")
	root.AddCommand(
		p.demoCommand(),
		p.serveCommand(),
		p.migrateCommand(),
		p.appendCommand(),
		p.exportCommand(),
		p.workspaceCommand(),
		p.keyCommand(),
		p.webhookCommand(),
		p.consoleCommand(),
		p.statusCommand(),
		p.rebuildCommand(),
		p.verifyCommand(),
		p.explainCommand(),
		p.quarantineCommand(),
		p.openapiCommand(),
		p.benchCommand(),
	)
	return root
}

// run wraps a command's work: settings are read first, and from here on an
// error is a failure and not wrong usage, unless it says so itself.
func (p *program) run(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := readSettings()
		if err != nil {
			return err
		}
		if p.dataDir != "" {
			s.DataDir = p.dataDir
		}
		p.settings = s
		p.logger = s.logger(p.errOut)
		p.began = true
		err = work(cmd.Context(), args)
		if cmd.Context().Err() != nil && errors.Is(err, context.Canceled) {
			return fmt.Errorf("interrupted: %w", err)
		}
		return err
	}
}

// group is a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usagef("name one of its commands: %s", commandNames(cmd))
		},
	}
	c.AddCommand(commands...)
	return c
}

func commandNames(cmd *cobra.Command) (names string) {
	for _, c := range cmd.Commands() {
		if names != "" {
			names += ", "
		}
		names += c.Name()
	}
	return names
}

// print writes a command's result: v as one line of JSON with --json, and
// otherwise whatever text writes.
func (p *program) print(v any, text func(io.Writer) error) error {
	if !p.json {
		return text(p.out)
	}
	enc := json.NewEncoder(p.out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}
