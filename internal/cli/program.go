package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Complete gives the root of a program what all programs have: the answers to mistyped command
// lines, the commands version and help, and the examples. In examples, the path of each command is
// in brackets above the lines that its help shows.
func (e *Env) Complete(root *cobra.Command, examples string) {
	root.Version = fmt.Sprint(root.Name(), " ", ReadBuildInfo())
	root.SetVersionTemplate("{{.Version}}\n")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Args = NoSuchCommand
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root.SetFlagErrorFunc(FlagError)
	root.AddCommand(e.versionCommand())
	addExamples(root, examples)
	root.InitDefaultHelpCmd()
	if c, _, err := root.Find([]string{"help"}); err == nil {
		c.Args = func(_ *cobra.Command, args []string) error {
			of, rest, err := root.Find(args)
			if err != nil {
				return &UsageError{err}
			}
			if !of.HasSubCommands() {
				return nil
			}
			return NoSuchCommand(of, rest)
		}
	}
}

// addExamples gives the examples to the commands of a tree.
func addExamples(root *cobra.Command, examples string) {
	for section := range strings.SplitSeq(examples, "\n\n") {
		path, lines, _ := strings.Cut(strings.TrimPrefix(section, "["), "]\n")
		c, _, err := root.Find(strings.Fields(path))
		if err != nil {
			panic("examples of a command that does not exist: " + path)
		}
		c.Example = "  " + strings.ReplaceAll(strings.TrimRight(lines, "\n"), "\n", "\n  ")
	}
}

// Execute runs a command line of a program and returns its exit status.
func (e *Env) Execute(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	root.SetIn(e.In)
	root.SetOut(e.Out)
	root.SetErr(e.ErrOut)
	// Who asks for the help of a command that does not exist is told so.
	var mistyped error
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd.HasSubCommands() {
			mistyped = NoSuchCommand(cmd, cmd.Flags().Args())
		}
		if mistyped == nil {
			help(cmd, args)
		}
	})
	cmd, err := root.ExecuteContextC(ctx)
	err = errors.Join(err, mistyped)
	if cmd.Name() == "help" {
		cmd = root // which has the help that was meant
	}
	var (
		exit  *ExitError
		usage *UsageError
	)
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &exit):
		return exit.Status
	case !e.started || errors.As(err, &usage):
		fmt.Fprintf(e.ErrOut, "%s: %v\nSee %s --help.\n", cmd.CommandPath(), err, cmd.CommandPath())
		return ExitUsage
	}
	fmt.Fprintf(e.ErrOut, "%s: %v\n", cmd.CommandPath(), err)
	return ExitFailed
}
