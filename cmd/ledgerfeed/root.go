package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/demo"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/doctor"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/proof"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/repair"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/status"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/transfer"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/trigger"
	"github.com/ledgerfeed/ledgerfeed/internal/buildinfo"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
)

// execute runs a command line and returns its exit status.
func execute(ctx context.Context, env *operate.Env, args []string) int {
	root := rootCommand(env)
	root.SetArgs(args)
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.ErrOut)
	// Who asks for the help of a command that does not exist is told so.
	var mistyped error
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd.HasSubCommands() {
			mistyped = cli.NoSuchCommand(cmd, cmd.Flags().Args())
		}
		if mistyped == nil {
			help(cmd, args)
		}
	})
	cmd, err := root.ExecuteContextC(ctx)
	err = env.ExplainConnection(errors.Join(err, mistyped))
	if cmd.Name() == "help" {
		cmd = root // which has the help that was meant
	}
	var (
		exit  *cli.ExitError
		usage *cli.UsageError
	)
	switch {
	case err == nil:
		return cli.ExitDone
	case errors.As(err, &exit):
		return exit.Status
	case !env.Started() || errors.As(err, &usage):
		fmt.Fprintf(env.ErrOut, "%s: %v\nSee %s --help.\n", cmd.CommandPath(), err, cmd.CommandPath())
		return cli.ExitUsage
	}
	fmt.Fprintf(env.ErrOut, "%s: %v\n", cmd.CommandPath(), err)
	return cli.ExitFailed
}

func rootCommand(env *operate.Env) *cobra.Command {
	root := &cobra.Command{
		Use:     "ledgerfeed",
		Version: buildinfo.Read().String(),
		Short:   "Serve billing data to readers: an event log, read models, a read-only API, webhooks",
		Long: `Ledgerfeed keeps an append-only event log in PostgreSQL, folds it into read
models, serves them over a read-only HTTP API, and sends signed webhooks.

Start with:  ledgerfeed demo

Every command uses the database at DATABASE_URL. Without this setting, the program starts
and stops its own PostgreSQL, in --data-dir.

With LEDGERFEED_CELLS there are several databases. A command uses the one in --cell, or
finds the one that has its --workspace. Without either, migrate, status, verify, doctor,
workspace list, secret-key check and secret-key rotate use all of them in turn.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cli.NoSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(cli.FlagError)
	root.SetVersionTemplate("{{.Version}}\n")
	env.AddFlags(root.PersistentFlags())
	root.AddCommand(
		demo.Command(env),
		serveCommand(env),
		healthCommand(env),
		operate.OverCells(migrateCommand(env)),
		transfer.AppendCommand(env),
		typesCommand(env),
		transfer.ExportCommand(env),
		proof.FollowCommand(env),
		proof.WitnessCommand(env),
		workspaceCommand(env),
		keyCommand(env),
		webhookCommand(env),
		trigger.Command(env),
		secretKeyCommand(env),
		proof.SigningKeyCommand(env),
		consoleCommand(env),
		operate.OverCells(status.Command(env)),
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
		versionCommand(env),
	)
	addExamples(root)
	root.InitDefaultHelpCmd()
	if c, _, err := root.Find([]string{"help"}); err == nil {
		c.Args = func(_ *cobra.Command, args []string) error {
			of, rest, err := root.Find(args)
			if err != nil {
				return &cli.UsageError{Err: err}
			}
			if !of.HasSubCommands() {
				return nil
			}
			return cli.NoSuchCommand(of, rest)
		}
	}
	return root
}
