package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

func serveCommand(env *operate.Env) *cobra.Command {
	var (
		roles     []string
		noMigrate bool
	)
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the service",
		Long: `Run the service. Any number of processes may serve one database, each with its own roles.
With LEDGERFEED_CELLS, a process serves all cells, or the one in --cell.

By default, a process has the roles api, project, deliver and console. You have to choose
three others:

  - relay sends the log to the message broker at LEDGERFEED_RELAY_URL.
  - ingest appends the messages of the stream or outbox at LEDGERFEED_INGEST_URL.
  - ingest-api lets producers append over HTTP, at the address in LEDGERFEED_INGEST_LISTEN.

On SIGTERM, the process stops cleanly. It says that it is no longer ready, still serves
for LEDGERFEED_DRAIN_DELAY (2 s), finishes its work, and ends.

The process first brings the schema up to date. With --no-migrate, or if its PostgreSQL
account may not do so, it waits until another account has done it. Until then, /healthz
says ok, /readyz says what is missing, and the process serves nothing else. With several
cells, only the cell that waits is not served.`,
		Args: cli.ExactArgs(0),
		RunE: env.RunServing(func(ctx context.Context, _ []string) (err error) {
			running := false
			defer func() {
				if !running && ctx.Err() != nil && errors.Is(err, context.Canceled) {
					err = nil // stopped during its start: nothing was left undone
				}
			}()
			if err := service.CheckRoles(roles, &env.Settings); err != nil {
				return err
			}
			if len(env.Cells) > 0 && env.Cell == "" {
				cells, err := service.NewCells(ctx, env, roles, !noMigrate)
				if err != nil {
					return err
				}
				running = true
				return cells.Run(ctx)
			}
			db, err := env.OpenDatabase(ctx, true)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close(ctx)) }()
			env.Logger.InfoContext(ctx, "starting", "version", cli.ReadBuildInfo().Version, "roles", strings.Join(roles, ","), "database", db.Name())
			if !noMigrate {
				if _, err := db.Migrate(ctx); err != nil && !pg.Forbidden(err) { // another account migrates
					return err
				}
			}
			s, err := service.New(ctx, env, db, roles)
			switch {
			case errors.Is(err, service.ErrStoppedWaiting):
				return nil
			case err != nil:
				return err
			}
			s.SayFirstStep()
			running = true
			return s.Run(ctx)
		}),
	}
	c.Flags().StringSliceVar(&roles, "roles", service.Roles(), "the roles of this process")
	c.Flags().BoolVar(&noMigrate, "no-migrate", false, "do not bring the schema up to date first")
	return c
}
