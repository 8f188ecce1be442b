package service

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/replica"
	"github.com/ledgerfeed/ledgerfeed/internal/settings"
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

// followReplicas follows the replicas of the settings, if a role reads from them or tells
// of what can be read.
func followReplicas(s *Service) error {
	cfg, err := replicaConfig(s.env, s.pool, s.env.Logger)
	if err != nil || len(cfg.Addresses) == 0 || !slices.ContainsFunc(s.roles, usesReplicas) {
		return err
	}
	cfg.Metrics = s.metrics
	if s.connections.replicas, err = replica.New(cfg); err != nil {
		return err
	}
	s.Add("replicas", s.connections.replicas.Run)
	return nil
}

// replicaConfig is how the replicas of the settings are followed; without Addresses when
// there are none.
func replicaConfig(env *cli.Env, pool *pgxpool.Pool, logger *slog.Logger) (replica.Config, error) {
	cfg := replica.Config{Primary: pool, Logger: logger, MaxLag: env.Settings.ReadMaxLag}
	var err error
	if cfg.Addresses, err = replica.ParseAddresses(env.Settings.ReadURLs); err != nil {
		return cfg, fmt.Errorf("LEDGERFEED_READ_DATABASE_URL: %w", err)
	}
	return cfg, nil
}

// LookAtReplicas finds out, for a command, how the replicas of the settings are. The
// addresses are theirs, in the same order; there are none when the settings name none.
func LookAtReplicas(ctx context.Context, env *cli.Env, pool *pgxpool.Pool) ([]replica.State, []replica.Address, error) {
	cfg, err := replicaConfig(env, pool, slog.New(slog.DiscardHandler))
	if err != nil || len(cfg.Addresses) == 0 {
		return nil, nil, err
	}
	states, err := replica.Look(ctx, cfg)
	return states, cfg.Addresses, err
}

// usesReplicas reports whether a role reads from replicas, or waits for them.
func usesReplicas(role string) bool {
	return role == RoleAPI || role == RoleConsole || role == RoleDeliver
}

// replicasOf opens pools of connections to each replica, of the sizes that two pools to the
// primary have, the first one for pages and with options. LEDGERFEED_CONNECTIONS is about the primary: a replica that is read from
// takes what the primary would take without it.
func replicasOf(ctx context.Context, s *Service, pages, lists string, o pg.Options) (list []readapi.Replica, err error) {
	for _, server := range s.connections.replicas.Servers() {
		one := readapi.Replica{Server: server}
		if one.Pool, err = openReplica(ctx, s, server, pages, o); err != nil {
			return nil, err
		}
		if one.WholeLists, err = openReplica(ctx, s, server, lists, listOptions(&s.env.Settings)); err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

func openReplica(ctx context.Context, s *Service, server *replica.Server, pool string, o pg.Options) (*pgxpool.Pool, error) {
	o.MaxConns = int32(s.connections.of[pool])
	o.Tracer = s.env.Traces.Statements()
	opened, err := server.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	s.pools.AddReplica(pool+" at "+server.Name, opened)
	return opened, nil
}
