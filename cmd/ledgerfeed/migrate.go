package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
)

func migrateCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Bring the schema up to date",
		Args:  cli.ExactArgs(0),
		RunE: env.Run(func(ctx context.Context, _ []string) (err error) {
			db, err := env.OpenDatabase(ctx, false)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close(ctx)) }()
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
		}),
	}
}
