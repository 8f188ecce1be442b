// Package witnessing is ledgerfeed witness: it has other people's witnesses cosign checkpoints.
package witnessing

import (
	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
)

// Command is ledgerfeed witness.
func Command(env *cli.Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "witness",
		Short: "Have a witness of transparency logs cosign a checkpoint",
		Args:  cli.NoSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(submitCommand(env))
	return c
}
