package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

func workspaceCommand(env *operate.Env) *cobra.Command {
	return cli.Group("workspace", "Create, change, list and move workspaces",
		workspaceCreateCommand(env), workspaceSetCommand(env), operate.OverCells(workspaceListCommand(env)), workspaceMoveCommand(env))
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

func workspaceCreateCommand(env *operate.Env) *cobra.Command {
	var id, name, email string
	c := &cobra.Command{
		Use:   "create",
		Short: "Create a workspace with an empty log",
		Args:  cli.ExactArgs(0),
		RunE: env.Run(func(ctx context.Context, _ []string) error {
			if !domain.IsID(id) {
				return cli.Usagef("--id is %q: want 1 to 64 letters, digits, _ and -", id)
			}
			if name == "" {
				name = id
			}
			if err := checkWorkspace(&name, &email); err != nil {
				return err
			}
			if err := env.NotElsewhere(ctx, id); err != nil {
				return err
			}
			err := changeWorkspace(ctx, env, id, func(workspaces *eventlog.Workspaces, tx pgx.Tx) error {
				return workspaces.Create(ctx, tx, eventlog.Workspace{ID: id, Name: name, NotifyEmail: email})
			})
			if _, exists := errors.AsType[*eventlog.WorkspaceExistsError](err); exists {
				return fmt.Errorf("%w; ledgerfeed workspace set --id %s changes its name and address", err, id)
			}
			return err
		}),
	}
	c.Flags().StringVar(&id, "id", "", "its id, 1 to 64 letters, digits, _ and - (required)")
	c.Flags().StringVar(&name, "name", "", "shown on /v1/me and in the console (default: the id)")
	c.Flags().StringVar(&email, "notify-email", "", "up to 5 addresses, separated by commas, which get mail when a webhook fails or is turned off")
	return c
}

func workspaceSetCommand(env *operate.Env) *cobra.Command {
	var id, name, email string
	c := &cobra.Command{
		Use:   "set",
		Short: "Change a workspace's name, or the addresses that get mail about failing webhooks",
		Args:  cli.ExactArgs(0),
	}
	c.Flags().StringVar(&id, "id", "", "the workspace (required)")
	c.Flags().StringVar(&name, "name", "", "its new name")
	c.Flags().StringVar(&email, "notify-email", "", "its new addresses, separated by commas, 5 at most; empty: nobody gets mail")
	c.RunE = env.RunReading(func(ctx context.Context, _ []string) error {
		var newName, newEmail *string
		if c.Flags().Changed("name") {
			newName = &name
		}
		if c.Flags().Changed("notify-email") {
			newEmail = &email
		}
		if id == "" || newName == nil && newEmail == nil {
			return cli.Usagef("want --id, and --name or --notify-email")
		}
		if err := checkWorkspace(newName, newEmail); err != nil {
			return err
		}
		return changeWorkspace(ctx, env, id, func(workspaces *eventlog.Workspaces, tx pgx.Tx) error {
			return workspaces.Set(ctx, tx, id, newName, newEmail)
		})
	})
	return c
}

// checkWorkspace checks what is not nil, and brings the addresses into their usual form.
func checkWorkspace(name, email *string) error {
	if name != nil {
		if err := eventlog.CheckWorkspaceName(*name); err != nil {
			return cli.Usagef("--name: %v", err)
		}
	}
	if email != nil {
		addresses, err := eventlog.ParseNotifyEmail(*email)
		if err != nil {
			return cli.Usagef("--notify-email: %v", err)
		}
		*email = addresses
	}
	return nil
}

// changeWorkspace makes a change and prints the workspace afterwards.
func changeWorkspace(ctx context.Context, env *operate.Env, id string, change func(*eventlog.Workspaces, pgx.Tx) error) error {
	return env.WithDeps(ctx, func(d *operate.Deps) error {
		err := pg.InTx(ctx, d.Pool, func(tx pgx.Tx) error {
			if err := change(d.Workspaces(), tx); err != nil {
				return err
			}
			return access.BumpRevision(ctx, tx, id)
		})
		if err != nil {
			return err
		}
		found, err := d.Workspaces().Get(ctx, id)
		if err != nil {
			return err
		}
		v := viewWorkspace(&found)
		return env.Print(v, func(out io.Writer) error { return writeWorkspaces(out, []workspaceView{v}) })
	})
}

func workspaceListCommand(env *operate.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List workspaces",
		Args:  cli.ExactArgs(0),
		RunE: env.RunReading(func(ctx context.Context, _ []string) error {
			return env.WithDeps(ctx, func(d *operate.Deps) error {
				list, err := d.Workspaces().List(ctx)
				if err != nil {
					return err
				}
				views := make([]workspaceView, len(list))
				for i := range list {
					views[i] = viewWorkspace(&list[i])
				}
				return env.Print(views, func(out io.Writer) error { return writeWorkspaces(out, views) })
			})
		}),
	}
}

func writeWorkspaces(out io.Writer, list []workspaceView) error {
	return cli.Table(out, "ID\tNAME\tNOTIFY\tCREATED", list, func(w *workspaceView) string {
		email := "-"
		if w.NotifyEmail != nil {
			email = *w.NotifyEmail
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s", w.ID, w.Name, email, w.CreatedAt)
	})
}
