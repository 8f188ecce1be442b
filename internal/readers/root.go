// Package readers has the commands for those who read a service over its API: following a feed with
// proof, keeping a copy of the lists, letting agents read it, and handing a checkpoint to a witness.
// None of them opens the service's database.
package readers

import (
	_ "embed"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/readapi/client"
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

// apiFlags say which API a command reads, and with which key.
type apiFlags struct{ url, keyFile string }

func (f *apiFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.url, "url", "", "the API's address, such as https://api.example.com (required)")
	c.Flags().StringVar(&f.keyFile, "key-file", "", "a file with the API key (default: "+cli.KeyVariable+")")
}

// reconnector returns a function that makes a client like connect with the key of now; nil: the key is
// still the one that was read first.
func (f *apiFlags) reconnector(env *cli.Env, retryFor time.Duration) func() (*client.Client, error) {
	last, _ := env.APIKey(f.keyFile)
	return func() (*client.Client, error) {
		key, err := env.APIKey(f.keyFile)
		if err != nil || key == last {
			return nil, err
		}
		last = key
		return f.connect(env, retryFor)
	}
}

// connect makes a client, which tries a request again for retryFor; 0: for its own time.
func (f *apiFlags) connect(env *cli.Env, retryFor time.Duration) (*client.Client, error) {
	key, err := env.APIKey(f.keyFile)
	if err != nil {
		return nil, err
	}
	api, err := client.New(client.Config{URL: f.url, Key: key, RetryFor: retryFor, Logger: env.Logger, UserAgent: "ledgerfeed-reader"})
	if err != nil {
		return nil, cli.Usagef("--url: %w", err)
	}
	return api, nil
}
