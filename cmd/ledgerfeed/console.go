package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
)

func consoleCommand(env *cli.Env) *cobra.Command {
	return cli.Group("console", "Let people into the console", consoleLinkCommand(env))
}

// linkView is a sign-in link in the output of commands.
type linkView struct {
	URL         string `json:"url"`
	WorkspaceID string `json:"workspace_id"`
	Role        string `json:"role"`
	ExpiresAt   string `json:"expires_at"`
}

func consoleLinkCommand(env *cli.Env) *cobra.Command {
	var workspace, role, person string
	c := &cobra.Command{
		Use:   "link",
		Short: "Make a sign-in link; it works once, within 10 minutes",
		Args:  cli.ExactArgs(0),
	}
	c.Flags().StringVar(&workspace, "workspace", "", "the workspace it opens (required)")
	c.Flags().StringVar(&role, "role", string(session.Admin), "what may be done with it: viewer (look) or admin (change)")
	c.Flags().StringVar(&person, "name", "", "who it is for, as the audit trail names them")
	c.RunE = env.Run(func(ctx context.Context, _ []string) error {
		if workspace == "" {
			return cli.Usagef("want --workspace")
		}
		parsed, ok := session.ParseRole(role)
		if !ok {
			return cli.Usagef("--role is %q: want viewer or admin", role)
		}
		return env.WithDeps(ctx, func(d *cli.Deps) error {
			url, expires, err := d.ConsoleLink(ctx, env.Settings.ConsoleAddress(), session.Link{WorkspaceID: workspace, Role: parsed, Person: person})
			if err != nil {
				return err
			}
			v := linkView{URL: url, WorkspaceID: workspace, Role: role, ExpiresAt: domain.FormatTime(expires)}
			return env.Print(v, func(out io.Writer) error {
				fmt.Fprintln(env.ErrOut, "This link works once, until "+v.ExpiresAt+".")
				_, err := fmt.Fprintln(out, v.URL)
				return err
			})
		})
	})
	return c
}
