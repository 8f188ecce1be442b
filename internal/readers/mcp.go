package readers

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/internal/agents"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
)

// answerWithin is how long a question is tried again. Agents give up after a minute.
const answerWithin = 20 * time.Second

// mcpCommand is ledgerfeed-reader mcp.
func mcpCommand(env *cli.Env) *cobra.Command {
	f := &apiFlags{}
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
			if f.url == "" {
				return cli.Usagef("want --url")
			}
			api, err := f.connect(env, answerWithin)
			if err != nil {
				return err
			}
			server, err := agents.New(ctx, api, cli.ReadBuildInfo().Version)
			if err != nil {
				return fmt.Errorf("start the server for agents: %w", err)
			}
			return agents.Serve(ctx, server, env.In, env.Out)
		}),
	}
	f.add(c)
	return c
}
