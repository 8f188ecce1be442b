// Package readers has the commands of those who read a service over its API: following a feed with
// proof, keeping a copy of the lists, letting agents read it, and handing a checkpoint to a witness. None of them opens the
// database of the service.
package readers

import (
	_ "embed"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
)

//go:embed examples.txt
var examples string

// Root is the program ledgerfeed-reader.
func Root(env *cli.Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "ledgerfeed-reader",
		Short: "Read a Ledgerfeed service over its API, and prove what it says",
		Long: `The program for those who read a Ledgerfeed service. It uses the API alone.

Start with:  ledgerfeed-reader follow --url https://api.example.com --key-file key`,
	}
	env.AddFlags(root.PersistentFlags())
	root.AddCommand(
		followCommand(env),
		syncCommand(env),
		mcpCommand(env),
		witnessCommand(env),
	)
	env.Complete(root, examples)
	return root
}
