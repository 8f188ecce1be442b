// Package replaybench measures folding the log again: verify and rebuild, and
// what they cost requests and appends at the same time.
package replaybench

import (
	"context"
	"fmt"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// Benchmark is ledgerfeed-bench replay.
func Benchmark(o *measure.Options) measure.Benchmark {
	return measure.Benchmark{
		Name: "replay", Short: "Folding the log again: verify and rebuild", Parts: []measure.Part{
			{Name: "all", Measure: func(ctx context.Context) error { return benchReplay(ctx, o) }},
		},
	}
}

const workspaces = 100

// results are the figures of one size of the log.
type results struct {
	entries           int
	rebuilt, verified float64 // entries a second
	copied            float64 // the same, of the limit
	peak              float64 // MiB
	rows              int64   // of the largest workspace
	rowBytes          float64

	appendAlone, appendBeside float64 // a second, without and with a rebuild
	readAlone, readBeside     pageTimes
}

// pageTimes are how long pages took, in milliseconds.
type pageTimes struct{ longest, p99 float64 }

// benchReplay measures verify and rebuild of two sizes.
func benchReplay(ctx context.Context, o *measure.Options) error {
	small, err := replaySize(ctx, o, o.Size(1_000, 100), false)
	if err != nil {
		return err
	}
	large, err := replaySize(ctx, o, o.Size(10_000, 1_000), true)
	if err != nil {
		return err
	}
	many := measure.Number(float64(large.entries))
	const alone = "the same with nothing beside it"
	for _, f := range []measure.Figure{
		measure.Figure{
			Name: "verify " + many + " entries, 100 workspaces", Value: large.verified, Unit: "entries/s",
			Limit: large.copied, LimitIs: workload.CopyRateIs,
		}.RatioAtLeast(0.3),
		measure.Figure{Name: "    the same", Value: large.verified, Unit: "entries/s"}.AtLeast(60_000),
		measure.Figure{
			Name: "    the same rate with ten times as many", Value: large.verified, Unit: "entries/s",
			Limit: small.verified, LimitIs: measure.Number(float64(small.entries)) + " entries",
		}.RatioAtLeast(0.85),
		measure.Figure{Name: "rebuild " + many + " entries into empty tables", Value: large.rebuilt, Unit: "entries/s"}.AtLeast(50_000),
		measure.Figure{
			Name: "    the same rate with ten times as many", Value: large.rebuilt, Unit: "entries/s",
			Limit: small.rebuilt, LimitIs: measure.Number(float64(small.entries)) + " entries",
		}.RatioAtLeast(0.85),
		measure.Figure{Name: "    memory of the process at its peak", Value: large.peak, Unit: "MiB"}.Below(400),
		{
			Name:  fmt.Sprintf("    memory for each of the %s rows of the largest workspace", measure.Number(float64(large.rows))),
			Value: large.rowBytes, Unit: "bytes",
		},
		measure.Figure{
			Name: "a page of 50 invoices, 200/s, while they are rebuilt, longest", Value: large.readBeside.longest, Unit: "ms",
			Limit: large.readAlone.longest, LimitIs: alone,
		}.Below(50),
		{Name: "    p99", Value: large.readBeside.p99, Unit: "ms", Limit: large.readAlone.p99, LimitIs: alone},
		measure.Figure{
			Name: "append single entries, 4 callers, while workspaces are rebuilt", Value: large.appendBeside, Unit: "/s",
			Limit: large.appendAlone, LimitIs: alone,
		}.RatioAtLeast(0.85),
	} {
		o.Report.Add(f)
	}
	return nil
}

// replaySize measures with some entries in each workspace; with beside, also what
// a rebuild costs requests and appends.
func replaySize(ctx context.Context, o *measure.Options, each int, beside bool) (r results, err error) {
	r.entries = workspaces * each
	err = measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) error {
		b := &bench{db}
		if err := b.rebuildAndVerify(ctx, &r, each); err != nil {
			return err
		}
		if !beside {
			return nil
		}
		var err error
		if r.rowBytes, err = b.rowBytes(ctx); err != nil {
			return err
		}
		if r.readAlone, r.readBeside, err = b.readBeside(ctx); err != nil {
			return err
		}
		if r.appendAlone, r.appendBeside, err = b.appendBeside(ctx); err != nil {
			return err
		}
		r.copied, err = workload.CopyRate(ctx, db, r.entries)
		return err
	})
	return r, err
}

func (b *bench) rebuildAndVerify(ctx context.Context, r *results, each int) error {
	if err := workload.Fill(ctx, b.Database, workspaces, each); err != nil {
		return err
	}
	// As if the rows had been lost: the tables are empty, the checkpoints are where
	// they were.
	if err := workload.SkipProjection(ctx, b.Database); err != nil {
		return err
	}
	if err := b.Quiesce(ctx); err != nil {
		return err
	}
	b.Say("rebuilding from %d entries", r.entries)
	measure.ResetPeak()
	var progress replay.Progress
	took, err := b.replay(ctx, &progress, nil, func(p *replay.Replayer) error {
		return p.Rebuild(ctx, replay.RebuildRequest{}, func(replay.Rebuilt) {})
	})
	if err != nil {
		return err
	}
	r.rebuilt = measure.PerSecond(r.entries, took)
	r.peak, r.rows = measure.PeakMemory(), progress.LargestRows.Load()
	if err := b.Quiesce(ctx); err != nil {
		return err
	}
	b.Say("verifying %d entries", r.entries)
	measure.ResetPeak()
	took, err = b.replay(ctx, &progress, nil, func(p *replay.Replayer) error {
		return verify(ctx, p, replay.VerifyRequest{})
	})
	if err != nil {
		return err
	}
	r.verified = measure.PerSecond(r.entries, took)
	r.peak = max(r.peak, measure.PeakMemory())
	return nil
}

// rowBytes is the memory that a row takes while its workspace is folded: the live
// heap when all of one workspace's rows are in memory.
func (b *bench) rowBytes(ctx context.Context) (float64, error) {
	var (
		progress     replay.Progress
		before, full = measure.LiveHeap(), 0.0
	)
	_, err := b.replay(ctx, &progress, func(context.Context, int) error {
		if full == 0 && progress.RowsCompared.Load() > 0 {
			full = measure.LiveHeap()
		}
		return nil
	}, func(p *replay.Replayer) error {
		return verify(ctx, p, replay.VerifyRequest{WorkspaceID: workload.WorkspaceID(0)})
	})
	if rows := progress.LargestRows.Load(); rows > 0 {
		return max(0, full-before) / float64(rows), err
	}
	return 0, err
}
