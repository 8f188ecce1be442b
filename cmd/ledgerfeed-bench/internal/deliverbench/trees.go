package deliverbench

import (
	"context"
	"errors"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
)

// treeRounds is how often a backlog is delivered with trees and without, by turns.
const treeRounds = 3

// benchTrees compares deliveries of a backlog whose event trees are built meanwhile with the
// same without trees. Commits do not wait for the disk.
func benchTrees(ctx context.Context, o *measure.Options) error {
	return withReceiver(ctx, o, func(b *bench, ctx context.Context, r *receiver) error {
		if err := b.DoNotWaitForDisk(ctx); err != nil {
			return err
		}
		for i := range goodWebhooks {
			if _, err := b.webhook(ctx, workload.WorkspaceID(i), r.url()); err != nil {
				return err
			}
		}
		var rates [2][]float64 // without, and with trees
		for round := range 2 * treeRounds {
			with := round%2 ^ round/2%2 // 0 1 1 0 0 1: what changes with time is shared
			rate, err := b.drainBeside(ctx, r, with == 1)
			if err != nil {
				return err
			}
			rates[with] = append(rates[with], rate)
		}
		o.Report.Add(measure.Figure{
			Name: "deliver a backlog whose trees are built meanwhile", Value: measure.Median(rates[1]), Unit: "/s",
			Limit: measure.Median(rates[0]), LimitIs: "the same without trees",
		}.RatioAtLeast(0.95))
		return nil
	})
}

// drainBeside appends a backlog and is the rate at which it is delivered.
func (b *bench) drainBeside(ctx context.Context, r *receiver, trees bool) (rate float64, err error) {
	if trees { // first the trees of the rounds that ran without them
		if _, err := b.withTrees(ctx, func() (float64, error) { return 0, workload.AwaitTrees(ctx, b.Database) }); err != nil {
			return 0, err
		}
	}
	each := b.Size(eventsEach, 100)
	for i := range goodWebhooks {
		if err := b.appendEvents(ctx, workload.WorkspaceID(i), each); err != nil {
			return 0, err
		}
	}
	if err := errors.Join(workload.SkipProjection(ctx, b.Database), b.Quiesce(ctx)); err != nil {
		return 0, err
	}
	drain := func() (float64, error) { return b.drain(ctx, r, goodWebhooks*each) }
	if trees {
		return b.withTrees(ctx, drain)
	}
	return drain()
}

// withTrees does something while trees are built.
func (b *bench) withTrees(ctx context.Context, do func() (float64, error)) (float64, error) {
	building, stop := context.WithCancel(ctx)
	defer stop()
	ended, err := workload.StartTrees(building, b.Database)
	if err != nil {
		return 0, err
	}
	rate, err := do()
	stop()
	return rate, errors.Join(err, <-ended)
}
