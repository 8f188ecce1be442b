package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/readapi/access/consolelink"
)

func consoleCommand(env *operate.Env) *cobra.Command {
	return cli.Group("console", "Let people into the console", consoleLinkCommand(env))
}

// linkView is a sign-in link in the output of commands.
type linkView struct {
	URL         string `json:"url"`
	WorkspaceID string `json:"workspace_id"`
	Role        string `json:"role"`
	ExpiresAt   string `json:"expires_at"`
}

func consoleLinkCommand(env *operate.Env) *cobra.Command {
	var (
		workspace, role, person string
		embed                   bool
	)
	c := &cobra.Command{
		Use:   "link",
		Short: "Make a sign-in link; it works once, within 10 minutes",
		Long: `Make a sign-in link; it works once, within 10 minutes.

With --embed, the link works only in a frame of your product's page: <iframe src="LINK">.
LEDGERFEED_CONSOLE_EMBED_ORIGINS names the products that may show it. Add ?to=/deliveries
or another path to the link, and the frame begins there.`,
		Args: cli.ExactArgs(0),
	}
	c.Flags().StringVar(&workspace, "workspace", "", "the workspace that the link opens (required)")
	c.Flags().StringVar(&role, "role", string(session.Admin), "what the person may do: viewer (look) or admin (change)")
	c.Flags().StringVar(&person, "name", "", "the name that the audit trail has for the person")
	c.Flags().BoolVar(&embed, "embed", false, "make a link for a frame in your product's page")
	c.RunE = env.RunReading(func(ctx context.Context, _ []string) error {
		if workspace == "" {
			return cli.Usagef("want --workspace")
		}
		if embed && len(env.Settings.ConsoleEmbedOrigins) == 0 {
			return errors.New("LEDGERFEED_CONSOLE_EMBED_ORIGINS is not set: no page may show the console in a frame")
		}
		parsed, ok := session.ParseRole(role)
		if !ok {
			return cli.Usagef("--role is %q: want viewer or admin", role)
		}
		return env.WithDeps(ctx, func(d *operate.Deps) error {
			links, err := d.ConsoleLinks(env.Settings.ConsoleAddress())
			if err != nil {
				return err
			}
			kind := links.SignIn
			if embed {
				kind = links.Embed
			}
			l, err := kind(ctx, consolelink.Person{WorkspaceID: workspace, Role: parsed, Name: person})
			if err != nil {
				return err
			}
			v := linkView{URL: l.URL, WorkspaceID: workspace, Role: role, ExpiresAt: domain.FormatTime(l.ExpiresAt)}
			return env.Print(v, env.Line(v.URL, "This link works once, until "+v.ExpiresAt+"."))
		})
	})
	return c
}
