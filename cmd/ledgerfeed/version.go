package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/internal/buildinfo"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
)

// versionCommand reads no settings, so that it answers whatever is wrong with them.
func versionCommand(env *operate.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Args:  cli.ExactArgs(0),
		RunE: func(*cobra.Command, []string) error {
			info := buildinfo.Read()
			return env.Print(info, func(out io.Writer) error {
				_, err := fmt.Fprintln(out, info)
				return err
			})
		},
	}
}
