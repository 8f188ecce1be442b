package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
	"github.com/ledgerfeed/ledgerfeed/migrations"
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
			if noMigrate {
				if err := warnOfOlderSchema(ctx, env, db); err != nil {
					return err
				}
			} else if _, err := db.Migrate(ctx); err != nil {
				return err
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

// warnOfOlderSchema logs what a process that migrates nothing may miss.
func warnOfOlderSchema(ctx context.Context, env *cli.Env, db *cli.Database) error {
	missing, err := migrations.Missing(ctx, db.URL)
	if err != nil {
		return fmt.Errorf("look at the schema: %w", err)
	}
	if len(missing) > 0 {
		env.Logger.ErrorContext(ctx, "the schema is older than this program, which fails where it needs what is missing: run ledgerfeed migrate as the owner of the tables",
			"missing", len(missing), "first", missing[0].Name)
	}
	return nil
}
