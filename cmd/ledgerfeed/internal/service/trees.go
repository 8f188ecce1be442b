package service

import (
	"context"
	"fmt"
	"net/http"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/signing"
	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/cosigning"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/projections"
)

// prepareTrees prepares what adds events to the trees of their workspaces.
func prepareTrees(ctx context.Context, s *Service) error {
	pool, err := s.openPool(ctx, treesPool, pg.Options{Settings: projections.PoolSettings()})
	if err != nil {
		return err
	}
	gatherer, err := newGatherer(ctx, s)
	if err != nil {
		return err
	}
	var grown func(string, int64)
	if gatherer != nil {
		grown = gatherer.Grown
	}
	builder, err := eventtree.NewBuilder(eventtree.BuilderConfig{
		Pool: pool, Notifier: s.notifier, Clock: s.env.Clock, Logger: s.env.Logger, Metrics: s.metrics,
		Grown: grown,
	})
	if err != nil {
		return err
	}
	s.Add("trees of events", builder.Run)
	if gatherer != nil {
		s.Add("cosignatures of witnesses", gatherer.Run)
	}
	return nil
}

// newGatherer makes what gathers the cosignatures of witnesses; nil: there are none.
func newGatherer(ctx context.Context, s *Service) (*cosigning.Gatherer, error) {
	set := &s.env.Settings
	if len(set.Witnesses) == 0 {
		return nil, nil
	}
	keys, err := signing.Keys(ctx, s.env)
	if err != nil {
		return nil, err
	}
	if keys == nil {
		return nil, fmt.Errorf("LEDGERFEED_WITNESSES: witnesses cosign what the service signs: %w", signing.ErrNoKey)
	}
	host, err := signingkey.Host(set.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("LEDGERFEED_WITNESSES needs LEDGERFEED_BASE_URL, with which the names of trees begin: %w", err)
	}
	return cosigning.New(cosigning.Config{
		Pool: s.pool, Witnesses: set.Witnesses, Keys: keys, Host: host, Clock: s.env.Clock, Logger: s.env.Logger, Metrics: s.metrics,
		HTTP: http.DefaultTransport,
	})
}
