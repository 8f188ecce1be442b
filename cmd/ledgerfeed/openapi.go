package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/proof"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/reference"
)

func openapiCommand(env *operate.Env) *cobra.Command {
	var file, html string
	c := &cobra.Command{
		Use:   "openapi",
		Short: "Write the API's description (OpenAPI 3.1)",
		Args:  cli.ExactArgs(0),
		RunE: env.Run(func(context.Context, []string) error {
			info := openapi.Info{Brand: env.Settings.Brand, BaseURL: env.Settings.BaseURL, DocsURL: env.Settings.DocsURL}
			if html != "" {
				return writePages(env, info, html)
			}
			document, err := openapi.Document(info)
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
	c.Flags().StringVar(&html, "html", "", "write the pages for people instead, into this `directory`; index.html is the first one")
	c.Flags().StringVarP(&file, "output", "o", "", "write to this file instead of standard output")
	c.MarkFlagsMutuallyExclusive("html", "output")
	return c
}

// writePages writes the pages for people as files that link to each other.
func writePages(env *operate.Env, info openapi.Info, directory string) error {
	keys, err := proof.ReadKeys(env)
	if err != nil {
		return err
	}
	address := func(path string) string {
		if path == "" {
			path = "index"
		}
		return path + ".html"
	}
	pages, err := reference.Pages(info, keys, address)
	if err != nil {
		return err
	}
	for _, p := range pages {
		file := filepath.Join(directory, filepath.FromSlash(address(p.Path)))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // for a web server to read
			return err
		}
		if err := os.WriteFile(file, p.HTML, 0o644); err != nil {
			return err
		}
	}
	return nil
}
