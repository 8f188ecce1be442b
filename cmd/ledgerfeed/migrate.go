package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func (p *program) migrateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Bring the schema up to date",
		Args:  cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) (err error) {
			d, err := p.openServer(ctx)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, d.close(ctx)) }()
			applied, err := migrations.Up(ctx, d.url)
			if err != nil {
				return err
			}
			if applied == nil {
				applied = []string{}
			}
			return p.print(map[string][]string{"applied": applied}, func(w io.Writer) error {
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
