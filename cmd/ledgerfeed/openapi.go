package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/reference"
)

func openapiCommand(env *cli.Env) *cobra.Command {
	var (
		file string
		html bool
	)
	c := &cobra.Command{
		Use:   "openapi",
		Short: "Write the API's description (OpenAPI 3.1)",
		Args:  cli.ExactArgs(0),
		RunE: env.Run(func(context.Context, []string) error {
			describe := openapi.Document
			if html {
				describe = reference.Page
			}
			document, err := describe(openapi.Info{Brand: env.Settings.Brand, BaseURL: env.Settings.BaseURL, DocsURL: env.Settings.DocsURL})
			if err != nil {
				return err
			}
			document = append(document, '\n')
			if file != "" {
				return os.WriteFile(file, document, 0o644)
			}
			if _, err := env.Out.Write(document); err != nil {
				return fmt.Errorf("write the description: %w", err)
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&html, "html", false, "write an HTML page for people that needs no other file")
	c.Flags().StringVarP(&file, "output", "o", "", "write to this file instead of standard output")
	return c
}
