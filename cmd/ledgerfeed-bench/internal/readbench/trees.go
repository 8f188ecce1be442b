package readbench

import (
	"context"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/api"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
)

const (
	// treeRounds is how often what is seen with trees and without is measured, by turns: many
	// short rounds, because what else a machine does differs by more than trees do.
	treeRounds = 20
	treeTime   = 3 * time.Second
)

// trees measures what the event trees cost others.
func trees(ctx context.Context, r *reader) error {
	return r.projecting(ctx, func(followers []*follower) error {
		r.Say("appending %d events a second to %d workspaces, with trees being built and without", visiblePerSecond, visibleWorkspaces)
		var medians [2][]float64 // without, and with trees
		for round := range 2 * treeRounds {
			with := round%2 ^ round/2%2 // 0 1 1 0 0 1: what changes with time is shared
			p50, err := visibleBeside(ctx, r, followers, round+1, with == 1)
			if err != nil {
				return err
			}
			medians[with] = append(medians[with], p50)
		}
		r.Report.Add(measure.Figure{
			Name: "append → in /v1/events with trees being built, p50", Value: measure.Median(medians[1]), Unit: "ms",
			Limit: measure.Median(medians[0]), LimitIs: "the same without trees",
		}.RatioAtMost(1.05))
		return nil
	})
}

// checkpoints compares requests for a checkpoint with requests that read nothing: as they are
// answered in production, where a checkpoint that has not changed is not signed again, and with
// each signed.
func checkpoints(ctx context.Context, r *reader) error {
	const checkpoint = "/v1/events/checkpoint"
	for _, m := range []struct {
		name string
		of   *api.Server
		want float64
	}{{"a checkpoint, 16 connections", r.cached, 0.5}, {"    signed each time", r.uncached, 0}} {
		rate, err := api.Saturate(ctx, r.Options, r.on(m.of, checkpoint))
		if err != nil {
			return err
		}
		me, err := api.Saturate(ctx, r.Options, r.on(m.of, "/v1/me"))
		if err != nil {
			return err
		}
		f := measure.Figure{Name: m.name, Value: rate, Unit: "/s", Limit: me, LimitIs: "/v1/me"}
		if m.want > 0 {
			f = f.RatioAtLeast(m.want)
		}
		r.Report.Add(f)
	}
	return nil
}

// visibleBeside is the median of visibleTimes, with trees being built meanwhile or without.
func visibleBeside(ctx context.Context, r *reader, followers []*follower, round int, building bool) (p50 float64, err error) {
	if building {
		running, stop := context.WithCancel(ctx)
		ended, err := workload.StartTrees(running, r.Database)
		if err != nil {
			stop()
			return 0, err
		}
		defer func() {
			stop()
			<-ended
		}()
		if err := workload.AwaitTrees(ctx, r.Database); err != nil { // of what was there before
			return 0, err
		}
	}
	times, err := r.visibleTimes(ctx, followers, round, r.Duration(treeTime))
	return measure.Quantile(times, 0.5), err
}
