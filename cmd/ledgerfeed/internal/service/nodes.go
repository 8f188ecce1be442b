package service

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/entrance"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// followNodes finds out which nodes the cluster has, if the database is that of one and its
// address names several hosts.
func followNodes(ctx context.Context, s *Service) (err error) {
	if s.connections.cluster, err = pg.OnCitus(ctx, s.pool); err != nil {
		return err
	}
	s.connections.nodes, err = entrance.New(ctx, entrance.Config{URL: s.database.URL, Coordinator: s.pool, Logger: s.env.Logger})
	if err == nil && s.connections.nodes != nil {
		s.Add("nodes of the cluster", s.connections.nodes.Run)
	}
	return err
}

// openAtNodes opens, beside a pool to the coordinator, one of the same size and with the same
// options to each node. LEDGERFEED_CONNECTIONS is about each server.
func openAtNodes(ctx context.Context, s *Service, name string, o pg.Options) (*entrance.Pools, error) {
	pools, err := s.connections.nodes.Open(ctx, optionsOf(s, name, o))
	if err != nil {
		return nil, err
	}
	for e, pool := range pools.All() {
		s.pools.AddReplica(name+" at "+e.Name, pool)
	}
	return pools, nil
}

// feedOf is the feed that is read with a pool of the database.
func feedOf(s *Service, pool *pgxpool.Pool) *eventlog.Feed {
	if s.connections.cluster {
		return eventlog.NewClusterFeed(pool)
	}
	return eventlog.NewFeed(pool)
}
