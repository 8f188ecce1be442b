package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/manual"
	"github.com/ledgerfeed/ledgerfeed/internal/buildinfo"
)

// manCommand is for the making of packages.
func manCommand(env *cli.Env) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:    "man",
		Short:  "Write the manual pages",
		Hidden: true,
		Args:   cli.ExactArgs(0),
	}
	c.RunE = env.Run(func(context.Context, []string) error {
		if dir == "" {
			return cli.Usagef("want --dir, where to write the pages")
		}
		for _, page := range manual.Pages(c.Root(), buildinfo.Read()) {
			if err := os.WriteFile(filepath.Join(dir, page.Name), page.Text, 0o644); err != nil {
				return fmt.Errorf("cannot write a manual page: %w", err)
			}
		}
		return nil
	})
	c.Flags().StringVar(&dir, "dir", "", "write to this directory, which exists (required)")
	return c
}
