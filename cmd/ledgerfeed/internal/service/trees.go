package service

import (
	"context"

	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections"
)

// prepareTrees prepares what adds events to the trees of their workspaces. Nodes are those
// of the database's cluster; nil: it is one PostgreSQL.
func prepareTrees(ctx context.Context, s *Service, nodes *pg.Nodes) error {
	pool, err := s.openPool(ctx, treesPool, pg.Options{Settings: projections.PoolSettings()})
	if err != nil {
		return err
	}
	builder, err := eventtree.NewBuilder(eventtree.BuilderConfig{
		Pool: pool, Nodes: nodes, Notifier: s.notifier, Clock: s.env.Clock, Logger: s.env.Logger, Metrics: s.metrics,
	})
	if err != nil {
		return err
	}
	s.Add("trees of events", builder.Run)
	return nil
}
