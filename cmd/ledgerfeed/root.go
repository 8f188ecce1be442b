package main

import (
	_ "embed"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/demo"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/doctor"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/proof"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/repair"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/transfer"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/tryout"
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
