package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/internal/buildinfo"
)

// versionCommand reads no settings, so that it answers whatever is wrong with them.
func (e *Env) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Args:  ExactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			info := buildinfo.Read()
			return e.Print(info, func(out io.Writer) error {
				_, err := fmt.Fprintln(out, cmd.Root().Name(), info)
				return err
			})
		},
	}
}
