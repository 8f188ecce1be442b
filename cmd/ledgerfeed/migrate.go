package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func migrateCommand(env *operate.Env) *cobra.Command {
	var (
		check, dryRun bool
		grants        string
	)
	apply := env.Run(withDatabase(env, func(ctx context.Context, db *operate.Database) error { return migrate(ctx, env, db) }))
	grant := env.Run(func(ctx context.Context, args []string) error {
		switch grants {
		case "print", "roles":
			return printGrants(env, grants == "roles")
		case "apply":
			return withDatabase(env, func(ctx context.Context, db *operate.Database) error { return applyGrants(ctx, env, db) })(ctx, args)
		}
		return cli.Usagef("--grants is %q: want print, roles or apply", grants)
	})
	look := env.RunReading(withDatabase(env, func(ctx context.Context, db *operate.Database) error {
		if dryRun {
			return printMissing(ctx, env, db)
		}
		return checkSchema(ctx, env, db)
	}))
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the schema up to date",
		Long: `Bring the schema up to date.

A migration that meets a locked table gives up after 2 seconds, so nobody waits behind it.
The command tries it again for a minute. Programs of the previous version go on working on
the new schema.

--grants is about PostgreSQL roles that have only the rights they need:
ledgerfeed_service for serve, ledgerfeed_writer for producers, ledgerfeed_auditor for
verify.

  apply   makes the roles, if its account may, and gives them their rights. Run it again
          after each migration.
  print   writes the SQL for the roles and for their rights.
  roles   writes the SQL for the roles alone.

An administrator of PostgreSQL can run this SQL in the database. "print" and "roles" need
no database.`,
		Example: `  ledgerfeed migrate --check      # what is missing; exit status 1 if anything is
  ledgerfeed migrate --dry-run    # the SQL that would be run
  ledgerfeed migrate
  ledgerfeed migrate --grants print
  ledgerfeed migrate --grants roles >roles.sql    # for psql --dbname … --file roles.sql
  ledgerfeed migrate --grants apply`,
		Args: cli.ExactArgs(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case check || dryRun:
				return look(cmd, args)
			case cmd.Flags().Changed("grants"):
				if grants != "apply" {
					operate.WithoutCells(cmd)
				}
				return grant(cmd, args)
			}
			return apply(cmd, args)
		},
	}
	c.Flags().BoolVar(&check, "check", false, "only say what is missing; exit status 1 if anything is")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only print the SQL that would be run")
	c.Flags().StringVar(&grants, "grants", "", "print, roles or apply: PostgreSQL roles with only the rights they need")
	c.MarkFlagsMutuallyExclusive("check", "dry-run", "grants")
	return c
}

// withDatabase makes the work of a command of work on the database whose schema may not
// fit this program.
func withDatabase(env *operate.Env, work func(context.Context, *operate.Database) error) func(context.Context, []string) error {
	return func(ctx context.Context, _ []string) (err error) {
		db, err := env.OpenDatabase(ctx, false)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close(ctx)) }()
		return work(ctx, db)
	}
}

func migrate(ctx context.Context, env *operate.Env, db *operate.Database) error {
	applied, err := db.Migrate(ctx)
	if err != nil {
		return err
	}
	if applied == nil {
		applied = []string{}
	}
	return env.Print(map[string][]string{"applied": applied}, func(w io.Writer) error {
		if len(applied) == 0 {
			_, err := fmt.Fprintln(w, "The schema is up to date.")
			return err
		}
		for _, name := range applied {
			fmt.Fprintln(w, "applied", name)
		}
		return nil
	})
}

// errMigrationsMissing is an outcome of migrate --check.
var errMigrationsMissing = errors.New("the schema is older than this program: ledgerfeed migrate brings it up to date")

// printMissing prints the SQL of the migrations that are missing.
func printMissing(ctx context.Context, env *operate.Env, db *operate.Database) error {
	missing, err := migrations.Missing(ctx, db.URL)
	if err != nil {
		return err
	}
	return env.Print(map[string][]string{"missing": namesOf(missing)}, func(w io.Writer) error {
		if len(missing) == 0 {
			_, err := fmt.Fprintln(w, "-- The schema is up to date.")
			return err
		}
		for _, f := range missing {
			fmt.Fprintf(w, "-- %s\n%s\n", f.Name, f.SQL)
		}
		return nil
	})
}

func namesOf(files []migrations.File) []string {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name
	}
	return names
}

func checkSchema(ctx context.Context, env *operate.Env, db *operate.Database) error {
	missing, err := migrations.Missing(ctx, db.URL)
	if err != nil {
		return err
	}
	err = env.Print(map[string][]string{"missing": namesOf(missing)}, func(w io.Writer) error {
		for _, f := range missing {
			fmt.Fprintln(w, "missing", f.Name)
		}
		if len(missing) == 0 {
			fmt.Fprintln(w, "-- The schema is up to date.")
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case len(missing) > 0:
		return errMigrationsMissing
	}
	return nil
}

func applyGrants(ctx context.Context, env *operate.Env, db *operate.Database) error {
	if err := migrations.ApplyGrants(ctx, db.URL); err != nil {
		return err
	}
	return env.Print(map[string]bool{"granted": true}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s, %s and %s have their rights.\n", migrations.RoleService, migrations.RoleWriter, migrations.RoleAuditor)
		return err
	})
}

// printGrants prints the SQL that makes the roles and, unless it is to print them alone,
// the SQL that gives them their rights. It works without a database.
func printGrants(env *operate.Env, rolesAlone bool) error {
	roles, grants := migrations.Grants()
	sql := map[string]string{"roles": roles}
	if !rolesAlone {
		sql["grants"] = grants
		roles += "\n" + grants
	}
	return env.Print(sql, func(w io.Writer) error {
		_, err := fmt.Fprint(w, roles)
		return err
	})
}
