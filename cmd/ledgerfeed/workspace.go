package main

import (
	"context"
	"fmt"
	"io"
	"net/mail"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

func (p *program) workspaceCommand() *cobra.Command {
	return group("workspace", "Create, change and list workspaces",
		p.workspaceCreateCommand(), p.workspaceSetCommand(), p.workspaceListCommand())
}

// workspaceView is a workspace in the output of commands.
type workspaceView struct {
	ID          string  `json:"id"`
	Name        string  `json:"name"`
	NotifyEmail *string `json:"notify_email"`
	CreatedAt   string  `json:"created_at"`
}

func viewWorkspace(w *eventlog.Workspace) workspaceView {
	v := workspaceView{ID: w.ID, Name: w.Name, CreatedAt: domain.FormatTime(w.CreatedAt)}
	if w.NotifyEmail != "" {
		v.NotifyEmail = &w.NotifyEmail
	}
	return v
}

func (p *program) workspaceCreateCommand() *cobra.Command {
	var id, name, email string
	c := &cobra.Command{
		Use:   "create",
		Short: "Create a workspace with an empty log",
		Args:  cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			if !domain.IsID(id) {
				return usagef("--id is %q: want 1 to 64 letters, digits, _ and -", id)
			}
			if name == "" {
				name = id
			}
			if err := checkWorkspace(&name, &email); err != nil {
				return err
			}
			return p.changeWorkspace(ctx, id, func(log *eventlog.Log, tx pgx.Tx) error {
				return log.CreateWorkspace(ctx, tx, eventlog.Workspace{ID: id, Name: name, NotifyEmail: email})
			})
		}),
	}
	c.Flags().StringVar(&id, "id", "", "its id, 1 to 64 letters, digits, _ and - (required)")
	c.Flags().StringVar(&name, "name", "", "shown on /v1/me and in the console (default: the id)")
	c.Flags().StringVar(&email, "notify-email", "", "the finance team: told when a webhook fails or is turned off")
	return c
}

func (p *program) workspaceSetCommand() *cobra.Command {
	var id, name, email string
	c := &cobra.Command{
		Use:   "set",
		Short: "Change a workspace's name or the address that is told of failing webhooks",
		Args:  cobra.NoArgs,
	}
	c.Flags().StringVar(&id, "id", "", "the workspace (required)")
	c.Flags().StringVar(&name, "name", "", "its new name")
	c.Flags().StringVar(&email, "notify-email", "", "its new address; empty: nobody is told")
	c.RunE = p.run(func(ctx context.Context, _ []string) error {
		var newName, newEmail *string
		if c.Flags().Changed("name") {
			newName = &name
		}
		if c.Flags().Changed("notify-email") {
			newEmail = &email
		}
		if id == "" || newName == nil && newEmail == nil {
			return usagef("want --id, and --name or --notify-email")
		}
		if err := checkWorkspace(newName, newEmail); err != nil {
			return err
		}
		return p.changeWorkspace(ctx, id, func(log *eventlog.Log, tx pgx.Tx) error {
			return log.SetWorkspace(ctx, tx, id, newName, newEmail)
		})
	})
	return c
}

// maxWorkspaceName is in characters.
const maxWorkspaceName = 200

func checkWorkspace(name, email *string) error {
	if name != nil {
		if n := utf8.RuneCountInString(*name); n < 1 || n > maxWorkspaceName || !utf8.ValidString(*name) {
			return usagef("--name: want 1 to %d characters", maxWorkspaceName)
		}
		for _, r := range *name {
			if unicode.IsControl(r) {
				return usagef("--name: want no control characters")
			}
		}
	}
	if email != nil && *email != "" {
		if a, err := mail.ParseAddress(*email); err != nil || a.Address != *email {
			return usagef("--notify-email is %q: want a mail address such as finance@example.com", *email)
		}
	}
	return nil
}

// changeWorkspace makes a change and prints the workspace as it is then.
func (p *program) changeWorkspace(ctx context.Context, id string, change func(*eventlog.Log, pgx.Tx) error) error {
	return p.withLog(ctx, func(w *workbench) error {
		err := pg.InTx(ctx, w.pool, func(tx pgx.Tx) error {
			if err := change(w.log, tx); err != nil {
				return err
			}
			return access.BumpRevision(ctx, tx, id)
		})
		if err != nil {
			return err
		}
		found, err := w.log.Workspace(ctx, id)
		if err != nil {
			return err
		}
		v := viewWorkspace(&found)
		return p.print(v, func(out io.Writer) error { return writeWorkspaces(out, []workspaceView{v}) })
	})
}

func (p *program) workspaceListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List workspaces",
		Args:  cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			return p.withLog(ctx, func(w *workbench) error {
				list, err := w.log.Workspaces(ctx)
				if err != nil {
					return err
				}
				views := make([]workspaceView, len(list))
				for i := range list {
					views[i] = viewWorkspace(&list[i])
				}
				return p.print(views, func(out io.Writer) error { return writeWorkspaces(out, views) })
			})
		}),
	}
}

func writeWorkspaces(out io.Writer, list []workspaceView) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tNAME\tNOTIFY\tCREATED")
	for _, w := range list {
		email := "-"
		if w.NotifyEmail != nil {
			email = *w.NotifyEmail
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", w.ID, w.Name, email, w.CreatedAt)
	}
	return t.Flush()
}
