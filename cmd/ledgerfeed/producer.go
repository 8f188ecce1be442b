package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/ingestapi"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

func producerCommand(env *operate.Env) *cobra.Command {
	c := cli.Group("producer", "Create, list, rotate and revoke the keys of producers that append over HTTP",
		producerCreateCommand(env), operate.OverCells(producerListCommand(env)), producerRotateCommand(env), producerRevokeCommand(env))
	c.Long = `Create, list, rotate and revoke the keys of producers that append over HTTP, at the
address in LEDGERFEED_INGEST_LISTEN of a process with the role ingest-api. A producer's key
opens nothing of the read API, and an API key appends nothing.`
	return c
}

// producerView is a producer's key in the output of commands.
type producerView struct {
	ID         string   `json:"id"`
	Key        string   `json:"key,omitempty"` // only when it has just been made
	Prefix     string   `json:"prefix"`
	Name       string   `json:"name"`
	Workspaces []string `json:"workspaces"`
	Types      []string `json:"types"` // null: all
	State      string   `json:"state"`
	CreatedAt  string   `json:"created_at"`
	RevokedAt  *string  `json:"revoked_at"`
}

func viewProducer(r *ingestapi.KeyRecord, secret string) producerView {
	state := access.Live
	if !r.Live() {
		state = access.Revoked
	}
	return producerView{
		ID: r.ID, Key: secret, Prefix: r.Prefix, Name: r.Name, Workspaces: r.Workspaces, Types: r.Types, State: string(state),
		CreatedAt: domain.FormatTime(r.CreatedAt), RevokedAt: optionalTime(r.RevokedAt),
	}
}

// withProducers does the work of a command with the store of producers' keys. Input that the store
// refuses is wrong usage.
func withProducers(ctx context.Context, env *operate.Env, work func(*operate.Deps, *ingestapi.KeyStore) error) error {
	return env.WithDeps(ctx, func(d *operate.Deps) error {
		err := work(d, ingestapi.NewKeyStore(ingestapi.KeyStoreConfig{Pool: d.Pool, Format: ingestapi.KeyFormat(env.Settings.Brand), Clock: env.Clock}))
		if _, invalid := errors.AsType[*ingestapi.InvalidKeyError](err); invalid {
			return &cli.UsageError{Err: err}
		}
		return err
	})
}

func producerCreateCommand(env *operate.Env) *cobra.Command {
	var workspaces, name, types string
	c := &cobra.Command{
		Use:   "create",
		Short: "Create a producer's key; it is shown once",
		Args:  cli.ExactArgs(0),
		RunE: env.RunReading(func(ctx context.Context, _ []string) error {
			if workspaces == "" || name == "" {
				return cli.Usagef("want --workspace and --name")
			}
			n := ingestapi.KeyOptions{Workspaces: splitList(workspaces), Name: name, Types: splitList(types)}
			return withProducers(ctx, env, func(d *operate.Deps, store *ingestapi.KeyStore) error {
				if err := sayBrand(ctx, env, d); err != nil {
					return err
				}
				r, secret, err := store.Create(ctx, n)
				if err != nil {
					return err
				}
				return printNewProducer(env, r, secret)
			})
		}),
	}
	c.Flags().StringVar(&workspaces, "workspace", "", "the workspaces that the key may append to, separated by commas (required)")
	c.Flags().StringVar(&name, "name", "", "a name to recognise it by (required)")
	c.Flags().StringVar(&types, "types", "", "the entry types that the key may append, separated by commas (default: all)")
	return c
}

// splitList reads a list whose parts are separated by commas.
func splitList(text string) (list []string) {
	if text == "" {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		list = append(list, strings.TrimSpace(part))
	}
	return list
}

func printNewProducer(env *operate.Env, r *ingestapi.KeyRecord, secret access.Secret) error {
	v := viewProducer(r, secret.Reveal())
	return env.Print(v, env.Line(v.Key, "This key is shown once; keep it where passwords are kept."))
}

func producerListCommand(env *operate.Env) *cobra.Command {
	var workspace string
	c := &cobra.Command{
		Use:   "list",
		Short: "List producers' keys, including revoked ones",
		Args:  cli.ExactArgs(0),
		RunE: env.RunReading(func(ctx context.Context, _ []string) error {
			return withProducers(ctx, env, func(_ *operate.Deps, store *ingestapi.KeyStore) error {
				list, err := store.List(ctx, workspace)
				if err != nil {
					return err
				}
				views := make([]producerView, len(list))
				for i, r := range list {
					views[i] = viewProducer(r, "")
				}
				return env.Print(views, func(out io.Writer) error { return writeProducers(out, views) })
			})
		}),
	}
	c.Flags().StringVar(&workspace, "workspace", "", "only the keys that may append to this workspace")
	return c
}

func writeProducers(out io.Writer, list []producerView) error {
	return cli.Table(out, "ID\tPREFIX\tNAME\tSTATE\tCREATED\tWORKSPACES\tTYPES", list, func(p *producerView) string {
		types := "all"
		if p.Types != nil {
			types = strings.Join(p.Types, ",")
		}
		return strings.Join([]string{p.ID, p.Prefix, p.Name, p.State, p.CreatedAt, strings.Join(p.Workspaces, ","), types}, "\t")
	})
}

func producerRotateCommand(env *operate.Env) *cobra.Command {
	var overlap texts.DurationFlag
	c := &cobra.Command{
		Use:   "rotate PRODUCER-ID",
		Short: "Give a producer's key a new secret; it is shown once",
		Args:  cli.ExactArgs(1),
		RunE: env.RunReading(func(ctx context.Context, args []string) error {
			return withProducers(ctx, env, func(_ *operate.Deps, store *ingestapi.KeyStore) error {
				r, secret, err := store.Rotate(ctx, args[0], time.Duration(overlap))
				if err != nil {
					return err
				}
				return printNewProducer(env, r, secret)
			})
		}),
	}
	c.Flags().Var(&overlap, "overlap", "how long the old secret still works, up to 24h")
	return c
}

func producerRevokeCommand(env *operate.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke PRODUCER-ID",
		Short: "Revoke a producer's key for ever, within a second",
		Args:  cli.ExactArgs(1),
		RunE: env.RunReading(func(ctx context.Context, args []string) error {
			return withProducers(ctx, env, func(_ *operate.Deps, store *ingestapi.KeyStore) error {
				r, err := store.Revoke(ctx, args[0])
				if err != nil {
					return err
				}
				v := viewProducer(r, "")
				return env.Print(v, func(out io.Writer) error { return writeProducers(out, []producerView{v}) })
			})
		}),
	}
}
