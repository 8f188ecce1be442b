package readers

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/internal/agents"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/readapi/client"
)

// answerWithin is how long a question is tried again. Agents give up after a minute.
const answerWithin = 20 * time.Second

// mcpCommand is ledgerfeed-reader mcp.
func mcpCommand(env *cli.Env) *cobra.Command {
	var url, keyFile string
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Let a language model read the service: a Model Context Protocol server on standard input and output",
		Long: `Let an agent read the service. The command is a server of the Model Context Protocol on
standard input and output: the agent's program starts it, as docs/guides/agents.md shows.

The tools only read: the lists with their filters, exact totals, one object with its
history, a client's credit, and the events since a time or a cursor. The agent sees what
the API key may see. Give it a key of its own, with the fewest permissions.

Each answer names the position of the log and the ids that it rests on. An answer that
would be too long is an error that says how to narrow it, never a shorter list.`,
		Args: cli.ExactArgs(0),
		RunE: env.Run(func(ctx context.Context, _ []string) error {
			if url == "" {
				return cli.Usagef("want --url")
			}
			key, err := env.APIKey(keyFile)
			if err != nil {
				return err
			}
			api, err := client.New(client.Config{URL: url, Key: key, RetryFor: answerWithin, Logger: env.Logger, UserAgent: "ledgerfeed-reader"})
			if err != nil {
				return cli.Usagef("--url: %w", err)
			}
			server, err := agents.New(ctx, api, cli.ReadBuildInfo().Version)
			if err != nil {
				return fmt.Errorf("start the server for agents: %w", err)
			}
			return agents.Serve(ctx, server, env.In, env.Out)
		}),
	}
	c.Flags().StringVar(&url, "url", "", "the API's address, such as https://api.example.com (required)")
	c.Flags().StringVar(&keyFile, "key-file", "", "a file with the API key (default: "+cli.KeyVariable+")")
	return c
}
