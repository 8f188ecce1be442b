package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/settings"
)

func configCommand(env *operate.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "config",
		Short: "Show the settings in force, and where each comes from",
		Long: `Show the settings in force, and where each comes from: the environment, the --config
file, or the default. The command does not show secrets.

In the file, a setting has the name of its variable without LEDGERFEED_, in lower case.
A value with several parts can be a list.`,
		Example: `  ledgerfeed config
  ledgerfeed config --config /etc/ledgerfeed.yaml --json`,
		Args: cli.ExactArgs(0),
		RunE: env.Run(func(context.Context, []string) error {
			list := env.InForce()
			return env.Print(map[string]any{"settings": list}, func(w io.Writer) error { return printSettings(w, list) })
		}),
	}
}

func printSettings(w io.Writer, list []settings.InForce) error {
	return cli.Table(w, "", list, func(s *settings.InForce) string {
		value := s.Value
		switch {
		case s.Secret && s.From != settings.FromDefault:
			value = "(set, not shown)"
		case value == "":
			value = "(not set)"
		}
		return s.Variable + "\t" + value + "\t" + s.From
	})
}
