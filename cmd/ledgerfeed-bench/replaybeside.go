package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/projections"
)

// besideRate is how many pages a second are asked for while workspaces are
// rebuilt: far below what the API can do, so that what shows is waiting.
const besideRate = 200

// whileRebuilding measures while workspaces are rebuilt one after the other, as
// the command does it.
func (s *setting) whileRebuilding(ctx context.Context, measure func() error) error {
	rebuilding, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		var meter projections.Meter
		_, err := s.replay(rebuilding, &meter, projections.NewYieldingPace(s.pool), func(r *projections.Replay) error {
			for {
				if err := r.Rebuild(rebuilding, projections.RebuildRequest{}, func(projections.Rebuilt) {}); err != nil {
					return err
				}
			}
		})
		ended <- err
	}()
	err := measure()
	stop()
	if rerr := <-ended; err == nil && ctx.Err() == nil && !errors.Is(rerr, context.Canceled) {
		err = rerr
	}
	return err
}

// readBeside is how long pages of 50 invoices take, in milliseconds, with
// nothing beside them and while every invoice is written anew by a rebuild.
func (s *setting) readBeside(ctx context.Context, m *replayed) error {
	s.say("reading alone and beside a rebuild")
	api, err := s.serve(ctx, serving{cacheBytes: noCache, recorded: true})
	if err != nil {
		return err
	}
	key, err := api.key(ctx, workspaceName(0))
	if err != nil {
		return err
	}
	r := reading{setting: s}
	measure := func() (worst, p99 float64, err error) {
		times, err := r.evenly(ctx, request{host: api.address, path: invoices, key: key}, besideRate)
		return quantile(times, 1), quantile(times, 0.99), err
	}
	if m.longestAlone, m.p99Alone, err = measure(); err != nil {
		return err
	}
	if _, err := s.pool.Exec(ctx, `UPDATE invoice SET base = replace(base, '"plan_name":', '"plan_name":"damaged","was":')`); err != nil {
		return fmt.Errorf("damage the invoices: %w", err)
	}
	return s.whileRebuilding(ctx, func() (err error) {
		m.longestBeside, m.p99Beside, err = measure()
		return err
	})
}

// appendBeside is how many entries a second are appended, alone and while
// workspaces are rebuilt: the middle of some rounds.
func (s *setting) appendBeside(ctx context.Context) (alone, beside float64, err error) {
	drafts, err := samples(10_000)
	if err != nil {
		return 0, 0, err
	}
	const callers = 4
	measure := func() (float64, error) {
		n, took, _, err := hammer(ctx, callers, max(5*time.Second, s.duration(8*time.Second)), func(ctx context.Context, caller, turn int) error {
			d := drafts[(caller*7919+turn)%len(drafts)]
			d.WorkspaceID = fmt.Sprintf("beside-%d", caller)
			_, err := s.log.Append(ctx, d)
			return err
		})
		return perSecond(n, took), err
	}
	const rounds = 3 // which take turns, because the machine may have other things to do as well
	var alones, besides []float64
	for range rounds {
		s.say("appending alone and beside a rebuild")
		rate, err := measure()
		if err != nil {
			return 0, 0, err
		}
		alones = append(alones, rate)
		if err := s.whileRebuilding(ctx, func() (err error) {
			rate, err = measure()
			return err
		}); err != nil {
			return 0, 0, err
		}
		besides = append(besides, rate)
	}
	return middle(alones), middle(besides), nil
}
