package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// versionCommand reads no settings, so that it answers whatever is wrong with them.
func (e *Env) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Args:  ExactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			info := ReadBuildInfo()
			return e.Print(info, e.Line(fmt.Sprint(cmd.Root().Name(), " ", info)))
		},
	}
}
