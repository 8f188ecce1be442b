package service

import (
	"context"

	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections"
)

// prepareTrees prepares what adds events to the trees of their workspaces. A claim has so
// many workspaces at most; 0: as many as usual.
func prepareTrees(ctx context.Context, s *Service, workspaces int) error {
	pool, err := s.openPool(ctx, treesPool, pg.Options{Settings: projections.PoolSettings()})
	if err != nil {
		return err
	}
	builder, err := eventtree.NewBuilder(eventtree.BuilderConfig{
		Pool: pool, Notifier: s.notifier, Clock: s.env.Clock, Logger: s.env.Logger, Metrics: s.metrics, Workspaces: workspaces,
	})
	if err != nil {
		return err
	}
	s.Add("trees of events", builder.Run)
	return nil
}
