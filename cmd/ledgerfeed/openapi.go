package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/readapi"
)

func (p *program) openapiCommand() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "openapi",
		Short: "Write the API's description (OpenAPI 3.1)",
		Args:  cobra.NoArgs,
		RunE: p.run(func(context.Context, []string) error {
			s := &p.settings
			document, err := readapi.Describe(readapi.Description{Brand: s.Brand, BaseURL: s.BaseURL, DocsURL: s.DocsURL})
			if err != nil {
				return err //nolint:wrapcheck // says it all
			}
			document = append(document, '\n')
			if file != "" {
				return os.WriteFile(file, document, 0o644) //nolint:gosec // for everybody to read
			}
			if _, err := p.out.Write(document); err != nil {
				return fmt.Errorf("write the description: %w", err)
			}
			return nil
		}),
	}
	c.Flags().StringVarP(&file, "output", "o", "", "write to this file instead of standard output")
	return c
}
