package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

func keyCommand(env *operate.Env) *cobra.Command {
	return cli.Group("key", "Create, list, rename, rotate and revoke API keys",
		keyCreateCommand(env), keyListCommand(env), keyRotateCommand(env), keyRevokeCommand(env), keyRenameCommand(env), keySetLimitCommand(env))
}

// keyView is a key in the output of commands.
type keyView struct {
	ID          string   `json:"id"`
	Key         string   `json:"key,omitempty"` // only when it has just been made
	Prefix      string   `json:"prefix"`
	WorkspaceID string   `json:"workspace_id"`
	Name        string   `json:"name"`
	Scopes      []string `json:"scopes"`
	RateLimit   int      `json:"rate_limit_per_minute"`
	State       string   `json:"state"`
	CreatedAt   string   `json:"created_at"`
	ExpiresAt   *string  `json:"expires_at"`
	RevokedAt   *string  `json:"revoked_at"`
	LastUsedAt  *string  `json:"last_used_at"`
}

func viewKey(r *access.Record, secret string, now time.Time) keyView {
	return keyView{
		ID: r.ID, Key: secret, Prefix: r.Prefix, WorkspaceID: r.WorkspaceID, Name: r.Name,
		Scopes: r.Permissions.Strings(), RateLimit: r.RateLimit, State: string(r.State(now)),
		CreatedAt: domain.FormatTime(r.CreatedAt), ExpiresAt: optionalTime(r.ExpiresAt), RevokedAt: optionalTime(r.RevokedAt), LastUsedAt: optionalTime(r.LastUsedAt),
	}
}

func optionalTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := domain.FormatTime(t)
	return &s
}

// withKeys does the work of a command with the store of keys. Input that the store
// refuses is wrong usage.
func withKeys(ctx context.Context, env *operate.Env, work func(*operate.Deps, *access.Store) error) error {
	return env.WithDeps(ctx, func(d *operate.Deps) error {
		store, err := d.Keys()
		if err != nil {
			return err
		}
		err = work(d, store)
		var invalid *access.InvalidError
		if errors.As(err, &invalid) {
			return &cli.UsageError{Err: err}
		}
		return err
	})
}

func keyCreateCommand(env *operate.Env) *cobra.Command {
	var (
		n               access.NewKey
		scopes, expires string
	)
	c := &cobra.Command{
		Use:   "create",
		Short: "Create an API key; it is shown once",
		Args:  cli.ExactArgs(0),
	}
	c.Flags().StringVar(&n.WorkspaceID, "workspace", "", "the workspace that the key reads (required)")
	c.Flags().StringVar(&n.Name, "name", "", "a name to recognise it by (required)")
	c.Flags().StringVar(&scopes, "scopes", "", "its permissions, separated by commas (required): "+access.PermissionsOf(access.AllPermissions()...).String())
	c.Flags().StringVar(&expires, "expires", "", "when the key expires: a date-time such as 2027-01-31T00:00:00Z, a date, or a time from now such as 720h or 90d (default: never)")
	c.Flags().IntVar(&n.RateLimit, "rate-limit", 0, fmt.Sprintf("requests a minute (default %d)", access.DefaultRateLimit))
	c.RunE = env.RunReading(func(ctx context.Context, _ []string) error {
		if n.WorkspaceID == "" || n.Name == "" || scopes == "" {
			return cli.Usagef("want --workspace, --name and --scopes")
		}
		if c.Flags().Changed("rate-limit") && n.RateLimit < 1 {
			return cli.Usagef("--rate-limit is %d: want 1 or more requests a minute", n.RateLimit)
		}
		var err error
		if n.Permissions, err = access.ParseScopes(scopes); err != nil {
			return &cli.UsageError{Err: err}
		}
		if expires != "" {
			var ok bool
			if n.ExpiresAt, ok = parseMoment(expires, env.Clock(), 1); !ok {
				return cli.Usagef("--expires is %q: want %s from now", expires, momentForm)
			}
		}
		return withKeys(ctx, env, func(d *operate.Deps, store *access.Store) error {
			if err := sayBrand(ctx, env, d); err != nil {
				return err
			}
			r, secret, err := store.Create(ctx, n)
			if err != nil {
				return err
			}
			if r.Permissions.OpensNothing() {
				fmt.Fprintln(env.ErrOut, "This key opens nothing but /v1/me: pay:read and margin:read only add fields to what other permissions open.")
			}
			return printNewKey(env, r, secret)
		})
	})
	return c
}

// sayBrand warns before the first key if nobody has chosen the brand.
func sayBrand(ctx context.Context, env *operate.Env, d *operate.Deps) error {
	notice, err := operate.BrandNotice(ctx, env.Settings.Brand, d.Pool)
	if err == nil && notice != "" {
		fmt.Fprintf(env.ErrOut, "This is the first key. %s. To choose another name, revoke this key and set it before you create the next.\n", notice)
	}
	return err
}

func printNewKey(env *operate.Env, r *access.Record, secret access.Secret) error {
	v := viewKey(r, secret.Reveal(), env.Clock())
	return env.Print(v, env.Line(v.Key, "This key is shown once; keep it where passwords are kept."))
}

func keyListCommand(env *operate.Env) *cobra.Command {
	var workspace string
	c := &cobra.Command{
		Use:   "list",
		Short: "List a workspace's API keys, including revoked and expired ones",
		Args:  cli.ExactArgs(0),
		RunE: env.RunReading(func(ctx context.Context, _ []string) error {
			if workspace == "" {
				return cli.Usagef("want --workspace")
			}
			return withKeys(ctx, env, func(_ *operate.Deps, store *access.Store) error {
				list, err := store.List(ctx, workspace)
				if err != nil {
					return err
				}
				views := make([]keyView, len(list))
				for i, r := range list {
					views[i] = viewKey(r, "", env.Clock())
				}
				return env.Print(views, func(out io.Writer) error { return writeKeys(out, views) })
			})
		}),
	}
	c.Flags().StringVar(&workspace, "workspace", "", "the workspace (required)")
	return c
}

func writeKeys(out io.Writer, list []keyView) error {
	return cli.Table(out, "ID\tPREFIX\tNAME\tSTATE\tLIMIT\tCREATED\tEXPIRES\tSCOPES", list, func(k *keyView) string {
		expires := "never"
		if k.ExpiresAt != nil {
			expires = *k.ExpiresAt
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s",
			k.ID, k.Prefix, k.Name, k.State, k.RateLimit, k.CreatedAt, expires, strings.Join(k.Scopes, ","))
	})
}

// ofKey is the RunE of a change of the key that the argument names.
func ofKey(env *operate.Env, change func(ctx context.Context, store *access.Store, workspaceID, keyID string) error) func(*cobra.Command, []string) error {
	return env.RunReading(func(ctx context.Context, args []string) error {
		return withKeys(ctx, env, func(_ *operate.Deps, store *access.Store) error {
			workspaceID, keyID, err := store.Find(ctx, args[0])
			if err != nil {
				return err
			}
			return change(ctx, store, workspaceID, keyID)
		})
	})
}

func keyRotateCommand(env *operate.Env) *cobra.Command {
	var overlap texts.DurationFlag
	c := &cobra.Command{
		Use:   "rotate KEY-ID|PREFIX",
		Short: "Give a key a new secret; it is shown once",
		Args:  cli.ExactArgs(1),
		RunE: ofKey(env, func(ctx context.Context, store *access.Store, workspaceID, keyID string) error {
			r, secret, err := store.Rotate(ctx, workspaceID, keyID, time.Duration(overlap))
			if err != nil {
				return err
			}
			return printNewKey(env, r, secret)
		}),
	}
	c.Flags().Var(&overlap, "overlap", "how long the old secret still works, up to 24h")
	return c
}

func keyRevokeCommand(env *operate.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke KEY-ID|PREFIX",
		Short: "Revoke a key for ever, within a second",
		Args:  cli.ExactArgs(1),
		RunE: ofKey(env, func(ctx context.Context, store *access.Store, workspaceID, keyID string) error {
			r, err := store.Revoke(ctx, workspaceID, keyID)
			if err != nil {
				return err
			}
			return printKey(env, r)
		}),
	}
}

func keyRenameCommand(env *operate.Env) *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:   "rename KEY-ID|PREFIX",
		Short: "Change a key's name",
		Args:  cli.ExactArgs(1),
		RunE: ofKey(env, func(ctx context.Context, store *access.Store, workspaceID, keyID string) error {
			r, err := store.Rename(ctx, workspaceID, keyID, name)
			if err != nil {
				return err
			}
			return printKey(env, r)
		}),
	}
	c.Flags().StringVar(&name, "name", "", "a name to recognise it by (required)")
	return c
}

func keySetLimitCommand(env *operate.Env) *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:   "set-limit KEY-ID|PREFIX",
		Short: "Change how many requests a minute a key may make",
		Args:  cli.ExactArgs(1),
		RunE: ofKey(env, func(ctx context.Context, store *access.Store, workspaceID, keyID string) error {
			r, err := store.SetRateLimit(ctx, workspaceID, keyID, limit)
			if err != nil {
				return err
			}
			return printKey(env, r)
		}),
	}
	c.Flags().IntVar(&limit, "rate-limit", access.DefaultRateLimit, "requests a minute")
	return c
}

func printKey(env *operate.Env, r *access.Record) error {
	v := viewKey(r, "", env.Clock())
	return env.Print(v, func(out io.Writer) error { return writeKeys(out, []keyView{v}) })
}
