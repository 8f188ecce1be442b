// Package cli is the frame of a program with commands: their streams and exit statuses, what they
// say about a mistyped command line, and how they print results. It knows no database.
package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// Env is the environment of a command.
type Env struct {
	In          io.Reader
	Out, ErrOut io.Writer // results; messages and progress
	Clock       func() time.Time
	Environ     []string // NAME=value, a later one counts; nil: this process's

	Logger *slog.Logger // set before a command's work begins
	JSON   bool         // --json

	started bool // see Start
}

// AddFlags adds the flags that every command of every program has.
func (e *Env) AddFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&e.JSON, "json", false, "machine-readable output on standard output")
}

// Run returns the RunE of a command that has no settings but those of its log. From when it does the
// work, an error is a failure, unless it is a UsageError.
func (e *Env) Run(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		if e.Logger, err = e.logger(); err != nil {
			return err
		}
		e.Start()
		return Interrupted(cmd.Context(), work(cmd.Context(), args))
	}
}

// logger makes the logger that the environment describes.
func (e *Env) logger() (*slog.Logger, error) {
	format := cmp.Or(e.Getenv("LEDGERFEED_LOG_FORMAT"), "text")
	if format != "text" && format != "json" {
		return nil, Usagef("LEDGERFEED_LOG_FORMAT is %q: want text or json", format)
	}
	var level slog.Level // info
	if text := e.Getenv("LEDGERFEED_LOG_LEVEL"); text != "" {
		if err := level.UnmarshalText([]byte(text)); err != nil {
			return nil, Usagef("LEDGERFEED_LOG_LEVEL is %q: want debug, info, warn or error", text)
		}
	}
	return NewLogger(e.ErrOut, format, level), nil
}

// Start notes that a command's own work begins. Errors before that are errors of usage.
func (e *Env) Start() { e.started = true }

// Interrupted returns the error of a command's work, and says so if the person ended the program.
func Interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted: %w", err)
	}
	return err
}

// NewLogger makes a logger that writes in a format, text or json. Both write a duration as 1.5s: JSON
// alone would have nanoseconds, without saying so.
func NewLogger(w io.Writer, format string, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format != "json" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	options.ReplaceAttr = func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			a.Value = slog.StringValue(a.Value.Duration().String())
		}
		return a
	}
	return slog.New(slog.NewJSONHandler(w, options))
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

// Line returns the text of a result for Print: text in lines of its own, and notes about it on
// standard error.
func (e *Env) Line(text string, notes ...string) func(io.Writer) error {
	return func(out io.Writer) error {
		for _, note := range notes {
			fmt.Fprintln(e.ErrOut, note)
		}
		_, err := fmt.Fprintln(out, text)
		return err
	}
}

// Table writes a list in columns, whose cells are separated by tabs in head and in each line. Without
// a head it is the list alone.
func Table[T any](out io.Writer, head string, list []T, line func(*T) string) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if head != "" {
		fmt.Fprintln(table, head)
	}
	for i := range list {
		fmt.Fprintln(table, line(&list[i]))
	}
	return table.Flush()
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

// FlagError replaces two messages of pflag. The one about a wrong value comes from Go's
// parsers; ours names the form wanted. The one about an unknown flag names the flag that
// was meant.
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
		return Usagef("there is no flag %s%s", name, texts.DidYouMean(name, names))
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
// that does not exist. The command's annotations name commands of other programs.
func NoSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := texts.DidYouMean(args[0], commandNames(cmd))
	if elsewhere, known := cmd.Annotations[args[0]]; known {
		hint = "; did you mean " + elsewhere + "?"
	}
	return Usagef("there is no command %q%s", args[0], hint)
}

func commandNames(cmd *cobra.Command) (names []string) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
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
	text, err := texts.ReadFile(file)
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(text))
	if key == "" || strings.ContainsAny(key, " \t\r\n") {
		return "", fmt.Errorf("%s has no API key: want one line", file)
	}
	return key, nil
}
