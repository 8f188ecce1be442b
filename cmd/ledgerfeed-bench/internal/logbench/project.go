// Package logbench measures appending to the log and projecting it.
package logbench

import (
	"context"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
)

// Benchmark is ledgerfeed-bench log.
func Benchmark(o *measure.Options) measure.Benchmark {
	return measure.Benchmark{
		Name: "log", Short: "Appending and projecting", SetUp: measure.ServingHeap, Parts: []measure.Part{
			{Name: "append", Measure: func(ctx context.Context) error { return benchAppend(ctx, o) }},
			{Name: "project", Measure: func(ctx context.Context) error { return benchProject(ctx, o) }},
			{Name: "mass", Measure: func(ctx context.Context) error { return benchMass(ctx, o, 12_000) }, Long: true},
			{Name: "mass-200000", Measure: func(ctx context.Context) error { return benchMass(ctx, o, 200_000) }, Long: true},
			{Name: "mass-1000000", Measure: func(ctx context.Context) error { return benchMass(ctx, o, 1_000_000) }, Long: true},
			{Name: "rename", Measure: func(ctx context.Context) error { return benchRename(ctx, o) }},
			{Name: "forget", Measure: func(ctx context.Context) error { return benchForget(ctx, o) }},
			{Name: "trees", Measure: func(ctx context.Context) error { return benchTrees(ctx, o) }},
			{Name: "held", Measure: func(ctx context.Context) error { return benchHeld(ctx, o) }},
		},
	}
}

// benchProject measures how fast a backlog is projected into the read tables.
func benchProject(ctx context.Context, o *measure.Options) error {
	var small, large, narrow, peak float64
	var limit float64
	// The first backlog that a server ever sees is projected at half the rate, because
	// its write-ahead log has no files to reuse yet and none of its memory was touched.
	// It is projected before anything is measured, so that sizes can be compared.
	if err := measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) error {
		each := o.Size(500, 50)
		if err := workload.Fill(ctx, db, 100, each); err != nil {
			return err
		}
		_, err := projectBacklog(ctx, db, 100*each)
		return err
	}); err != nil {
		return err
	}
	for _, b := range []struct {
		workspaces, each int
		rate             *float64
	}{
		{100, o.Size(1_000, 100), &small},
		{100, o.Size(10_000, 1_000), &large},
		{o.Size(20_000, 200), 10, &narrow},
	} {
		err := measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) error {
			if err := workload.Fill(ctx, db, b.workspaces, b.each); err != nil {
				return err
			}
			var err error
			measure.ResetPeak()
			*b.rate, err = projectBacklog(ctx, db, b.workspaces*b.each)
			if err != nil || b.rate != &large {
				return err
			}
			peak = measure.PeakMemory()
			limit, err = workload.CopyRate(ctx, db, b.workspaces*b.each)
			return err
		})
		if err != nil {
			return err
		}
	}
	o.Report.Add(measure.Figure{
		Name: fmt.Sprintf("project a backlog of %s entries, 100 workspaces", measure.Number(float64(100*o.Size(10_000, 1_000)))), Value: large, Unit: "entries/s",
		Limit: limit, LimitIs: workload.CopyRateIs,
	}.AtLeast(25_000))
	o.Report.Add(measure.Figure{
		Name: "    the same rate with ten times as many", Value: large, Unit: "entries/s",
		Limit: small, LimitIs: fmt.Sprintf("a backlog of %s entries", measure.Number(float64(100*o.Size(1_000, 100)))),
	}.RatioWithin(0.15))
	o.Report.Add(measure.Figure{Name: "    memory of the process at its peak", Value: peak, Unit: "MiB"}.Below(300))
	o.Report.Add(measure.Figure{
		Name:  fmt.Sprintf("project %s workspaces with 10 entries each", measure.Number(float64(o.Size(20_000, 200)))),
		Value: narrow, Unit: "entries/s",
	}.AtLeast(10_000))
	return nil
}

// projectBacklog projects what is in the log and returns the entries a second.
func projectBacklog(ctx context.Context, db *measure.Database, entries int) (float64, error) {
	db.Say("projecting %d entries", entries)
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended, err := workload.StartProjector(running, db)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = workload.AwaitProjected(ctx, db)
	took := time.Since(began)
	stop()
	if rerr := <-ended; err == nil {
		err = rerr
	}
	return measure.PerSecond(entries, took), err
}
