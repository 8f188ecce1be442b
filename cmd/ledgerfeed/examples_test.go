package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/readers"
)

// TestHelpHasExamples: each command that does something has examples, and what they
// show can be typed.
func TestHelpHasExamples(t *testing.T) {
	t.Parallel()
	seen := 0
	var visit func(build func() *cobra.Command, c *cobra.Command)
	visit = func(build func() *cobra.Command, c *cobra.Command) {
		for _, sub := range c.Commands() {
			visit(build, sub)
		}
		if c.HasSubCommands() || c.Name() == "help" || c.Name() == "completion" {
			return
		}
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for line := range strings.SplitSeq(c.Example, "\n") {
			seen++
			checkExample(t, build(), c.CommandPath(), line)
		}
	}
	for _, build := range []func() *cobra.Command{
		func() *cobra.Command { return rootCommand(&operate.Env{}) },
		func() *cobra.Command { return readers.Root(&cli.Env{}) },
	} {
		visit(build, build())
	}
	if seen < 30 {
		t.Errorf("%d lines of examples", seen)
	}
}

// checkExample parses a line as the program would, up to the work itself.
func checkExample(t *testing.T, root *cobra.Command, path, line string) {
	t.Helper()
	line, _, _ = strings.Cut(line, " #")
	line, _, _ = strings.Cut(line, " >")
	_, command, found := strings.Cut(line, root.Name()+" ")
	if !found {
		t.Errorf("%s: %q does not call the program", path, line)
		return
	}
	args := words(command)
	c, rest, err := root.Find(args)
	if err != nil {
		t.Errorf("%s: %q: %v", path, line, err)
		return
	}
	if c.CommandPath() != path {
		t.Errorf("%s: %q is an example of %s", path, line, c.CommandPath())
	}
	if c.DisableFlagParsing {
		return
	}
	if err := c.ParseFlags(rest); err != nil {
		t.Errorf("%s: %q: %v", path, line, err)
		return
	}
	if err := c.ValidateArgs(c.Flags().Args()); err != nil {
		t.Errorf("%s: %q: %v", path, line, err)
	}
}

// words splits a command line at spaces outside of quotation marks.
func words(line string) []string {
	quoted := false
	return strings.FieldsFunc(line, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
}
