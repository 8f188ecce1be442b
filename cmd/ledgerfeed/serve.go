package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
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
finishes what is under way, and ends.`,
		Args: cli.ExactArgs(0),
		RunE: env.Run(func(ctx context.Context, _ []string) (err error) {
			if err := service.CheckRoles(roles); err != nil {
				return err
			}
			db, err := env.OpenDatabase(ctx, true)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close(ctx)) }()
			if !noMigrate {
				if _, err := db.Migrate(ctx); err != nil {
					return err
				}
			}
			s, err := service.New(ctx, env, db, roles)
			if err != nil {
				return err
			}
			return s.Run(ctx)
		}),
	}
	c.Flags().StringSliceVar(&roles, "roles", service.Roles(), "what this process does")
	c.Flags().BoolVar(&noMigrate, "no-migrate", false, "do not bring the schema up to date first")
	return c
}
