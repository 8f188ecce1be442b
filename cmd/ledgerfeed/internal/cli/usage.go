package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ledgerfeed/ledgerfeed/internal/similar"
)

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
