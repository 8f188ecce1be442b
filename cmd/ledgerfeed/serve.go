package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// The roles of a serving process.
const (
	roleAPI     = "api"
	roleProject = "project"
	roleDeliver = "deliver"
	roleConsole = "console"
)

func allRoles() []string { return []string{roleAPI, roleProject, roleDeliver, roleConsole} }

func (p *program) serveCommand() *cobra.Command {
	var (
		roles     []string
		noMigrate bool
	)
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the service",
		Long: `Run the service, all roles by default. Any number of processes may serve one
database, each with the roles it is given. Stops cleanly on SIGTERM: it says
that it is no longer ready, serves on for LEDGERFEED_DRAIN_DELAY (2 s), finishes
what is under way, and ends.`,
		Args: cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) (err error) {
			if err := checkRoles(roles); err != nil {
				return err
			}
			d, err := p.openServer(ctx)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, d.close(ctx)) }()
			if !noMigrate {
				if err := d.prepare(ctx, true); err != nil {
					return err
				}
			}
			s, err := p.newService(ctx, d, roles)
			if err != nil {
				return err
			}
			return s.run(ctx)
		}),
	}
	c.Flags().StringSliceVar(&roles, "roles", allRoles(), "what this process does")
	c.Flags().BoolVar(&noMigrate, "no-migrate", false, "do not bring the schema up to date first")
	return c
}

func checkRoles(roles []string) error {
	for _, r := range roles {
		if !slices.Contains(allRoles(), r) {
			return usagef("--roles: there is no role %q; want some of %s", r, strings.Join(allRoles(), ", "))
		}
	}
	if len(roles) == 0 {
		return usagef("--roles: want at least one of %s", strings.Join(allRoles(), ", "))
	}
	return nil
}

// errGone ends the service when its own PostgreSQL has gone away.
var errGone = errors.New("the program's own PostgreSQL has stopped; start again to recover it")

func (s *service) watchDatabase(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.database.gone():
		return fmt.Errorf("%w (%w)", errGone, s.database.local.Err())
	}
}
