// Package demo has the command that sets everything up on one machine: a
// database with a workspace of two years whose entries keep coming, the service,
// and a receiver for webhooks.
package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
)

// Command is ledgerfeed demo.
func Command(env *operate.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Run everything on this machine, with two years of an agency's data and new entries every few seconds",
		Long: `Start everything on this machine:

  - PostgreSQL: the program's own, or the one at DATABASE_URL.
  - A workspace with two years of an agency's billing. It gets new entries every few
    seconds.
  - The service.

The demo prints keys and commands to try. Ctrl-C stops everything. The next start
continues from there.`,
		Args: cli.ExactArgs(0),
		RunE: env.Run(func(ctx context.Context, _ []string) (err error) {
			if err := avoidTakenPorts(ctx, env); err != nil {
				return err
			}
			if env.Getenv("LEDGERFEED_LOG_LEVEL") == "" {
				env.Settings.LogLevel = slog.LevelWarn // the output is meant to be read
				env.Logger = cli.NewLogger(env.ErrOut, env.Settings.LogFormat, env.Settings.LogLevel)
			}
			env.Settings.DrainDelay = 0 // there is no load balancer
			// The brand counts as given: a demo's keys go to nobody, so there is no reason to warn about it.
			if env.Settings.Brand, err = brand.Parse(env.Settings.Brand.String()); err != nil {
				return err
			}
			db, err := env.OpenDatabase(ctx, true)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close(ctx)) }()
			if _, err := db.Migrate(ctx); err != nil {
				return err
			}
			return run(ctx, env, db)
		}),
	}
}

func run(ctx context.Context, env *operate.Env, db *operate.Database) error {
	deps, err := env.NewDeps(ctx, db)
	if err != nil {
		return err
	}
	defer deps.Close()
	alone, err := onlyDemo(ctx, deps)
	if err != nil {
		return err
	}
	defer alone()
	dir := db.DataDir(env.Settings.DataDir)
	r, err := startReceiver(ctx, env, dir)
	if err != nil {
		return err
	}
	s, err := service.New(ctx, env, db, service.Roles())
	if err != nil {
		return err
	}
	s.Add("webhook receiver", r.Serve)
	s.Add("demo", func(ctx context.Context) error {
		err := show(ctx, env, deps, s, r, dir)
		if ctx.Err() == nil {
			return err
		}
		return nil // interrupted, as a demo is meant to end
	})
	if err := s.Run(ctx); err != nil {
		return err
	}
	kept := "The database keeps everything."
	if dir := deps.DataDir(""); dir != "" {
		kept = "The data is in " + dir + "."
	}
	_, err = fmt.Fprintln(env.Out, "\nStopped. "+kept+" The same command starts again from here.")
	return err
}

// show provides what there is to look at while the service runs: it makes what
// is not there yet from an earlier start, prints the welcome, and lets the
// billing product go on until ctx ends.
func show(ctx context.Context, env *operate.Env, deps *operate.Deps, s *service.Service, r *webhookReceiver, dir string) error {
	agency, err := newAgency(ctx, deps.Pool, s.Log, env.Clock)
	if err != nil {
		return err
	}
	if err := agency.appendHistory(ctx); err != nil {
		return err
	}
	if err := deps.AwaitProjected(ctx, workspaceID, time.Minute, service.NoProjector); err != nil {
		return err
	}
	saved, err := loadSaved(dir)
	if err != nil {
		return err
	}
	keys, err := deps.Keys()
	if err != nil {
		return err
	}
	if err := saved.makeKeys(ctx, keys, env.Clock()); err != nil {
		return err
	}
	webhooks, err := deps.WebhooksWithKey(ctx)
	if err != nil {
		return err
	}
	if err := r.makeWebhook(ctx, webhooks, saved); err != nil {
		return err
	}
	if err := makeLastDay(ctx, env, deps, saved, keys, webhooks); err != nil {
		return err
	}
	if err := welcome(ctx, env, deps, s, saved); err != nil {
		return err
	}
	product, err := newProduct(ctx, deps.Pool, env.Clock)
	if err != nil {
		return err
	}
	return agency.publishNew(ctx, product, env.Out, env.Logger)
}
