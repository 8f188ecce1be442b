package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
)

func healthCommand(env *operate.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Ask the serving process on this machine whether it is ready",
		Long: `Ask the serving process on this machine, at LEDGERFEED_ADMIN_LISTEN, whether it is ready.
The answer comes from /readyz. The exit status is 1 if the process is not ready or does
not run. Use this command for health checks in a container, which has no other program.`,
		Args: cli.ExactArgs(0),
		RunE: env.Run(func(ctx context.Context, _ []string) error {
			answer, err := service.Ask(ctx, env.Settings.AdminListen)
			if err != nil {
				return err
			}
			if !answer.Ready {
				return fmt.Errorf("the process is not ready: %s", answer)
			}
			return env.Print(answer, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, "The process is ready.")
				return err
			})
		}),
	}
}
