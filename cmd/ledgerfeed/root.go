package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/demo"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/doctor"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/proof"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/repair"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/transfer"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/tryout"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/settings"
)

// A test runs the examples through the parser of the command line.
//
//go:embed examples.txt
var examples string

func rootCommand(env *operate.Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "ledgerfeed",
		Short: "Serve billing data to readers: an event log, read models, a read-only API, webhooks",
		Long: `Ledgerfeed keeps an append-only event log in PostgreSQL, folds it into read
models, serves them over a read-only HTTP API, and sends signed webhooks.

Start with:  ledgerfeed demo

Every command uses the database at DATABASE_URL. Without this setting, the program starts
and stops its own PostgreSQL, in --data-dir.

With LEDGERFEED_CELLS there are several databases. A command uses the one in --cell, or
finds the one that has its --workspace. Without either, migrate, status, verify, doctor,
workspace list, secret-key check and secret-key rotate use all of them in turn.`,
		Annotations: map[string]string{"follow": "ledgerfeed-reader follow", "witness": "ledgerfeed-reader witness"},
	}
	env.AddFlags(root.PersistentFlags())
	root.AddCommand(
		demo.Command(env),
		serveCommand(env),
		healthCommand(env),
		operate.OverCells(migrateCommand(env)),
		transfer.AppendCommand(env),
		typesCommand(env),
		transfer.ExportCommand(env),
		workspaceCommand(env),
		keyCommand(env),
		producerCommand(env),
		webhookCommand(env),
		tryout.TriggerCommand(env),
		secretKeyCommand(env),
		proof.SigningKeyCommand(env),
		consoleCommand(env),
		operate.OverCells(doctor.StatusCommand(env)),
		operate.OverCells(doctor.Command(env)),
		repair.RebuildCommand(env),
		operate.OverCells(repair.VerifyCommand(env), "checkpoint"),
		repair.ExplainCommand(env),
		repair.QuarantineCommand(env),
		repair.AnomalyCommand(env),
		repair.IngestCommand(env),
		repair.PersonCommand(env),
		configCommand(env),
		openapiCommand(env),
		benchCommand(env),
	)
	env.Complete(root, examples)
	return root
}

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
