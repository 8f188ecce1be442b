// Package witnessing is ledgerfeed witness: a witness of transparency logs for a customer or
// an auditor to run, its key, and asking a witness.
package witnessing

import (
	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
)

// Command is ledgerfeed witness.
func Command(env *cli.Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "witness",
		Short: "Run a witness of transparency logs, or have one cosign a checkpoint",
		Args:  cli.NoSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	key := &cobra.Command{
		Use:   "key",
		Short: "Make or show a witness's key",
		Args:  cli.NoSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	key.AddCommand(keyNewCommand(env), keyShowCommand(env))
	c.AddCommand(serveCommand(env), key, submitCommand(env))
	return c
}
