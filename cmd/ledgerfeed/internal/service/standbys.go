package service

import (
	"context"
	"log/slog"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/settings"
	"github.com/ledgerfeed/ledgerfeed/internal/standby"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// pageOptions are those of a pool that reads pages.
func pageOptions() pg.Options {
	return pg.Options{ReadBuffer: readapi.ReadBuffer, Settings: readapi.PoolSettings(), CancelStatements: true}
}

// listOptions are those of a pool that reads whole lists.
func listOptions(set *settings.Settings) pg.Options {
	return pg.Options{ReadBuffer: readapi.ReadBuffer, Settings: readapi.WholeListPoolSettings(set.WholeListTimeout), CancelStatements: true}
}

// standbyConfig is how the standbys of the settings are followed.
func standbyConfig(env *cli.Env, pool *pgxpool.Pool, logger *slog.Logger) standby.Config {
	return standby.Config{URL: env.Settings.ReadURL, Primary: pool, MaxLag: env.Settings.ReadMaxLag, Logger: logger}
}

// followStandbys follows the standbys of the settings, if a role reads from them.
func followStandbys(s *Service) (err error) {
	if s.env.Settings.ReadURL == "" || !slices.Contains(s.roles, RoleAPI) && !slices.Contains(s.roles, RoleConsole) {
		return nil
	}
	cfg := standbyConfig(s.env, s.pool, s.env.Logger)
	cfg.Metrics = s.metrics
	if s.connections.standbys, err = standby.New(cfg); err != nil {
		return err
	}
	s.Add("standbys", s.connections.standbys.Run)
	return nil
}

// LookAtStandbys finds out, for a command, how the standbys of the settings are; nil: the
// settings name none.
func LookAtStandbys(ctx context.Context, env *cli.Env, pool *pgxpool.Pool) (*standby.State, error) {
	if env.Settings.ReadURL == "" {
		return nil, nil
	}
	is, err := standby.Look(ctx, standbyConfig(env, pool, slog.New(slog.DiscardHandler)))
	return &is, err
}

// copyOf opens two pools of connections to the standbys, of the sizes of two pools to the
// primary, the first one for pages and with options; nil: there are no standbys.
// LEDGERFEED_CONNECTIONS is about the primary: the standbys take as many beside them.
func copyOf(ctx context.Context, s *Service, pages, lists string, o pg.Options) (c *readapi.Copy, err error) {
	from := s.connections.standbys
	if from == nil {
		return nil, nil
	}
	c = &readapi.Copy{Alive: from.Alive}
	if c.Pool, err = openStandbys(ctx, s, pages, o); err != nil {
		return nil, err
	}
	c.WholeLists, err = openStandbys(ctx, s, lists, listOptions(&s.env.Settings))
	return c, err
}

func openStandbys(ctx context.Context, s *Service, pool string, o pg.Options) (*pgxpool.Pool, error) {
	o.MaxConns = int32(s.connections.of[pool])
	o.Tracer = s.env.Traces.Statements()
	opened, err := s.connections.standbys.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	s.pools.AddBeside(pool+" at standbys", opened)
	return opened, nil
}
