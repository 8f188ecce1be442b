// Package cosigning has the witnesses of a service cosign the checkpoints of its trees
// (https://c2sp.org/tlog-witness), and keeps their cosignatures in the database, from where
// they are served with the checkpoint that they are of.
//
// Each witness has a loop of its own, so one that is slow or away holds up no other, and
// none holds up the trees. A loop hears of trees that have grown here; it finds the others
// in a sweep. A tree that does not grow is asked about once, and one that
// was refused now and then.
package cosigning

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Gatherer gathers cosignatures while it runs.
type Gatherer struct {
	cfg     Config
	askers  []*asker
	metrics *metrics
}

// New makes a Gatherer.
func New(cfg Config) (*Gatherer, error) {
	if cfg.Pool == nil || cfg.Keys == nil || cfg.Host == "" || cfg.HTTP == nil {
		return nil, errors.New("cosigning: Config needs a Pool, Keys, a Host and HTTP")
	}
	for _, d := range []struct {
		of    *time.Duration
		usual time.Duration
	}{
		{&cfg.Gather, 100 * time.Millisecond},
		{&cfg.Timeout, 10 * time.Second},
		{&cfg.Sweep, time.Second},
		{&cfg.Rest, 30 * time.Second},
		{&cfg.Again, 10 * time.Minute},
		{&cfg.Backoff, time.Second},
		{&cfg.Longest, time.Minute},
	} {
		if *d.of == 0 {
			*d.of = d.usual
		}
	}
	g := &Gatherer{cfg: cfg, metrics: newMetrics()}
	for i := range cfg.Witnesses {
		g.askers = append(g.askers, newAsker(&g.cfg, g.metrics, &cfg.Witnesses[i]))
	}
	if cfg.Metrics != nil {
		for _, c := range g.metrics.collectors() {
			if err := cfg.Metrics.Register(c); err != nil {
				return nil, err
			}
		}
	}
	return g, nil
}

// Grown tells that the trees of a workspace have the events up to a position, or soon will.
func (g *Gatherer) Grown(workspaceID string, position int64) {
	for _, a := range g.askers {
		a.add(workspaceID, position)
	}
}

// Run gathers until ctx ends.
func (g *Gatherer) Run(ctx context.Context) error {
	var wait sync.WaitGroup
	for _, a := range g.askers {
		wait.Go(func() { a.run(ctx) })
		wait.Go(func() { a.sweep(ctx) })
	}
	wait.Wait()
	return nil
}
