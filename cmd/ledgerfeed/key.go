package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

func (p *program) keyCommand() *cobra.Command {
	return group("key", "Create, list, rotate and revoke API keys",
		p.keyCreateCommand(), p.keyListCommand(), p.keyRotateCommand(), p.keyRevokeCommand(), p.keySetLimitCommand())
}

// keyView is a key in the output of commands. Key, the secret itself, is
// there only when it has just been made.
type keyView struct {
	ID          string   `json:"id"`
	Key         string   `json:"key,omitempty"`
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

// withKeys opens the store of keys for a command.
func (p *program) withKeys(ctx context.Context, work func(*workbench, *access.Store) error) error {
	return p.withLog(ctx, func(w *workbench) error {
		store, err := p.keyStore(w)
		if err != nil {
			return err
		}
		return asUsage(work(w, store))
	})
}

// auditKey keeps a change of a key for the console's audit.
func (p *program) auditKey(ctx context.Context, w *workbench, action audit.Action, r *access.Record, detail string) error {
	return p.audit(ctx, w, audit.Change{WorkspaceID: r.WorkspaceID, Action: action, ObjectID: r.ID, ObjectName: r.Name, Detail: detail})
}

func (p *program) keyStore(w *workbench) (*access.Store, error) {
	return access.NewStore(access.StoreConfig{Pool: w.pool, Format: access.NewFormat(p.settings.Brand), Clock: p.clock})
}

// asUsage turns a complaint about the user's input into wrong usage.
func asUsage(err error) error {
	var invalid *access.InvalidError
	if errors.As(err, &invalid) {
		return &usageError{err}
	}
	return err
}

func (p *program) keyCreateCommand() *cobra.Command {
	var (
		n               access.NewKey
		scopes, expires string
	)
	c := &cobra.Command{
		Use:   "create",
		Short: "Create an API key; it is shown once",
		Args:  cobra.NoArgs,
	}
	c.Flags().StringVar(&n.WorkspaceID, "workspace", "", "the workspace it reads (required)")
	c.Flags().StringVar(&n.Name, "name", "", "a name to know it by (required)")
	c.Flags().StringVar(&scopes, "scopes", "", "its permissions, separated by commas (required): "+access.PermissionsOf(access.AllPermissions()...).String())
	c.Flags().StringVar(&expires, "expires", "", "when it ends: a date-time such as 2027-01-31T00:00:00Z, a date, or a time from now such as 720h or 90d (default: never)")
	c.Flags().IntVar(&n.RateLimit, "rate-limit", 0, fmt.Sprintf("requests a minute (default %d)", access.DefaultRateLimit))
	c.RunE = p.run(func(ctx context.Context, _ []string) error {
		if n.WorkspaceID == "" || n.Name == "" || scopes == "" {
			return usagef("want --workspace, --name and --scopes")
		}
		if c.Flags().Changed("rate-limit") && n.RateLimit < 1 {
			return usagef("--rate-limit is %d: want 1 or more requests a minute", n.RateLimit)
		}
		var err error
		if n.Permissions, err = access.ParseScopes(scopes); err != nil {
			return &usageError{err}
		}
		if n.ExpiresAt, err = parseMoment(expires, p.clock()); err != nil {
			return usagef("--expires: %w", err)
		}
		return p.withKeys(ctx, func(w *workbench, store *access.Store) error {
			r, secret, err := store.Create(ctx, n)
			if err != nil {
				return err
			}
			return errors.Join(p.printNewKey(r, secret), p.auditKey(ctx, w, audit.KeyCreate, r, r.Permissions.String()))
		})
	})
	return c
}

func (p *program) printNewKey(r *access.Record, secret access.Secret) error {
	v := viewKey(r, secret.Reveal(), p.clock())
	return p.print(v, func(out io.Writer) error {
		fmt.Fprintln(p.errOut, "This key is shown once; keep it where passwords are kept.")
		_, err := fmt.Fprintln(out, v.Key)
		return err
	})
}

// parseMoment reads a moment in the future; empty is none.
func parseMoment(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, ok := domain.ParseTime(s); ok {
		return t, nil
	}
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if d, err := time.ParseDuration(days + "h"); err == nil && d > 0 {
			return now.Add(24 * d), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return now.Add(d), nil
	}
	return time.Time{}, fmt.Errorf("%q: want a date-time such as 2027-01-31T00:00:00Z, a date such as 2027-01-31, or a time such as 720h or 90d", s)
}

func (p *program) keyListCommand() *cobra.Command {
	var workspace string
	c := &cobra.Command{
		Use:   "list",
		Short: "List a workspace's API keys, also revoked and expired ones",
		Args:  cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			if workspace == "" {
				return usagef("want --workspace")
			}
			return p.withKeys(ctx, func(_ *workbench, store *access.Store) error {
				list, err := store.List(ctx, workspace)
				if err != nil {
					return err
				}
				views := make([]keyView, len(list))
				for i, r := range list {
					views[i] = viewKey(r, "", p.clock())
				}
				return p.print(views, func(out io.Writer) error { return writeKeys(out, views) })
			})
		}),
	}
	c.Flags().StringVar(&workspace, "workspace", "", "the workspace (required)")
	return c
}

func writeKeys(out io.Writer, list []keyView) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tPREFIX\tNAME\tSTATE\tLIMIT\tCREATED\tEXPIRES\tSCOPES")
	for _, k := range list {
		expires := "never"
		if k.ExpiresAt != nil {
			expires = *k.ExpiresAt
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n",
			k.ID, k.Prefix, k.Name, k.State, k.RateLimit, k.CreatedAt, expires, strings.Join(k.Scopes, ","))
	}
	return t.Flush()
}

// ofKey runs a change of the key that the argument names.
func (p *program) ofKey(change func(ctx context.Context, w *workbench, store *access.Store, workspaceID, keyID string) error) func(*cobra.Command, []string) error {
	return p.run(func(ctx context.Context, args []string) error {
		return p.withKeys(ctx, func(w *workbench, store *access.Store) error {
			workspaceID, err := store.WorkspaceOf(ctx, args[0])
			if err != nil {
				return err
			}
			return change(ctx, w, store, workspaceID, args[0])
		})
	})
}

func (p *program) keyRotateCommand() *cobra.Command {
	var overlap time.Duration
	c := &cobra.Command{
		Use:   "rotate KEY-ID",
		Short: "Give a key a new secret; it is shown once",
		Args:  cobra.ExactArgs(1),
		RunE: p.ofKey(func(ctx context.Context, w *workbench, store *access.Store, workspaceID, keyID string) error {
			r, secret, err := store.Rotate(ctx, workspaceID, keyID, overlap)
			if err != nil {
				return err
			}
			return errors.Join(p.printNewKey(r, secret), p.auditKey(ctx, w, audit.KeyRotate, r, "the old secret works for "+overlap.String()))
		}),
	}
	c.Flags().DurationVar(&overlap, "overlap", 0, "how long the old secret still works, up to 24h")
	return c
}

func (p *program) keyRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke KEY-ID",
		Short: "End a key for good, within a second",
		Args:  cobra.ExactArgs(1),
		RunE: p.ofKey(func(ctx context.Context, w *workbench, store *access.Store, workspaceID, keyID string) error {
			r, err := store.Revoke(ctx, workspaceID, keyID)
			if err != nil {
				return err
			}
			return errors.Join(p.printKey(r), p.auditKey(ctx, w, audit.KeyRevoke, r, ""))
		}),
	}
}

func (p *program) keySetLimitCommand() *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:   "set-limit KEY-ID",
		Short: "Change a key's requests a minute",
		Args:  cobra.ExactArgs(1),
		RunE: p.ofKey(func(ctx context.Context, w *workbench, store *access.Store, workspaceID, keyID string) error {
			r, err := store.SetRateLimit(ctx, workspaceID, keyID, limit)
			if err != nil {
				return err
			}
			return errors.Join(p.printKey(r), p.auditKey(ctx, w, audit.KeySetLimit, r, fmt.Sprintf("%d requests a minute", r.RateLimit)))
		}),
	}
	c.Flags().IntVar(&limit, "rate-limit", access.DefaultRateLimit, "requests a minute")
	return c
}

func (p *program) printKey(r *access.Record) error {
	v := viewKey(r, "", p.clock())
	return p.print(v, func(out io.Writer) error { return writeKeys(out, []keyView{v}) })
}
