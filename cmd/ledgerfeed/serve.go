package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

func serveCommand(env *cli.Env) *cobra.Command {
	var (
		roles     []string
		noMigrate bool
	)
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the service",
		Long: `Run the service, all roles by default. Any number of processes may serve one
database, each with the roles it is given. Stops cleanly on SIGTERM: it says
that it is no longer ready, still serves for LEDGERFEED_DRAIN_DELAY (2 s),
finishes what is under way, and ends.

The roles api, project, deliver and console are what a process has by default. Two have
to be chosen: relay sends the log to the message broker at LEDGERFEED_RELAY_URL, and
ingest appends the messages of the stream or outbox at LEDGERFEED_INGEST_URL.

It brings the schema up to date first. With --no-migrate, or where its account of
PostgreSQL may not do so, it waits until another account has: /healthz says ok, /readyz
says what is missing, and nothing else is served.`,
		Args: cli.ExactArgs(0),
		RunE: env.Run(func(ctx context.Context, _ []string) (err error) {
			if err := service.CheckRoles(roles, &env.Settings); err != nil {
				return err
			}
			db, err := env.OpenDatabase(ctx, true)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close(ctx)) }()
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
			return s.Run(ctx)
		}),
	}
	c.Flags().StringSliceVar(&roles, "roles", service.Roles(), "what this process does")
	c.Flags().BoolVar(&noMigrate, "no-migrate", false, "do not bring the schema up to date first")
	return c
}
