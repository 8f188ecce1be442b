package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections"
)

// replayed is what a benchmark of replay has measured.
type replayed struct {
	entries         int
	rebuilt, folded float64 // entries a second
	copied          float64 // the same, of the limit
	peak            float64 // MiB
	rows            int64   // of the largest workspace
	rowBytes        float64
	alone, beside   float64 // appends a second, without and with a rebuild

	// Milliseconds for a page, without and with a rebuild.
	longestAlone, longestBeside, p99Alone, p99Beside float64
}

// replaying measures folding the log again: to fill empty tables, and to compare.
func replaying(ctx context.Context, o *Options) error {
	small, err := replayOf(ctx, o, o.size(2_000, 200), false)
	if err != nil {
		return err
	}
	large, err := replayOf(ctx, o, o.size(20_000, 2_000), true)
	if err != nil {
		return err
	}
	many := number(float64(large.entries))
	o.Report.add(Figure{
		Name: "verify " + many + " entries, 100 workspaces", Value: large.folded, Unit: "entries/s",
		Limit: large.copied, LimitIs: "COPY of the log out and of the finished rows in",
	}.ratioAtLeast(0.3))
	o.Report.add(Figure{Name: "    the same", Value: large.folded, Unit: "entries/s"}.atLeast(60_000))
	o.Report.add(Figure{
		Name: "    the same rate with ten times as many", Value: large.folded, Unit: "entries/s",
		Limit: small.folded, LimitIs: number(float64(small.entries)) + " entries",
	}.ratioAtLeast(0.85))
	o.Report.add(Figure{Name: "rebuild " + many + " entries into empty tables", Value: large.rebuilt, Unit: "entries/s"}.atLeast(50_000))
	o.Report.add(Figure{
		Name: "    the same rate with ten times as many", Value: large.rebuilt, Unit: "entries/s",
		Limit: small.rebuilt, LimitIs: number(float64(small.entries)) + " entries",
	}.ratioAtLeast(0.85))
	o.Report.add(Figure{Name: "    memory of the process at its peak", Value: large.peak, Unit: "MiB"}.below(400))
	o.Report.add(Figure{
		Name:  fmt.Sprintf("    memory for each of the %s rows of the largest workspace", number(float64(large.rows))),
		Value: large.rowBytes, Unit: "bytes",
	})
	o.Report.add(Figure{
		Name: "a page of 50 invoices, 200/s, while they are rebuilt, longest", Value: large.longestBeside, Unit: "ms",
		Limit: large.longestAlone, LimitIs: "the same with nothing beside it",
	}.below(50))
	o.Report.add(Figure{
		Name: "    p99", Value: large.p99Beside, Unit: "ms",
		Limit: large.p99Alone, LimitIs: "the same with nothing beside it",
	})
	o.Report.add(Figure{
		Name: "append single entries, 4 callers, while workspaces are rebuilt", Value: large.beside, Unit: "/s",
		Limit: large.alone, LimitIs: "the same with nothing beside it",
	}.ratioAtLeast(0.85))
	return nil
}

// replayOf measures with 100 workspaces of so many entries each.
func replayOf(ctx context.Context, o *Options, each int, whole bool) (m replayed, err error) {
	const workspaces = 100
	m.entries = workspaces * each
	err = withSetting(ctx, o, func(ctx context.Context, s *setting) error {
		if err := s.fill(ctx, workspaces, each); err != nil {
			return err
		}
		// As if the rows had been lost: the tables are empty, the checkpoints are
		// where they were.
		if err := s.passOver(ctx); err != nil {
			return err
		}
		if err := s.settle(ctx); err != nil {
			return err
		}
		s.say("rebuilding from %d entries", m.entries)
		forgetPeak()
		var meter projections.Meter
		took, err := s.replay(ctx, &meter, nil, func(r *projections.Replay) error {
			return r.Rebuild(ctx, projections.RebuildRequest{}, func(projections.Rebuilt) {})
		})
		if err != nil {
			return err
		}
		m.rebuilt = perSecond(m.entries, took)
		m.peak, m.rows = peakMemory(), meter.LargestRows.Load()
		if err := s.settle(ctx); err != nil {
			return err
		}
		s.say("verifying %d entries", m.entries)
		forgetPeak()
		took, err = s.replay(ctx, &meter, nil, func(r *projections.Replay) error {
			return s.verify(ctx, r, projections.VerifyRequest{})
		})
		if err != nil {
			return err
		}
		m.folded = perSecond(m.entries, took)
		m.peak = max(m.peak, peakMemory())
		if !whole {
			return nil
		}
		if m.rowBytes, err = s.rowBytes(ctx); err != nil {
			return err
		}
		if err := s.readBeside(ctx, &m); err != nil {
			return err
		}
		if m.alone, m.beside, err = s.appendBeside(ctx); err != nil {
			return err
		}
		m.copied, err = s.copyRate(ctx, m.entries)
		return err
	})
	return m, err
}

// verify fails when it finds a difference: then what was measured is not what
// was meant.
func (s *setting) verify(ctx context.Context, r *projections.Replay, q projections.VerifyRequest) error {
	var first *projections.Difference
	err := r.Verify(ctx, q, func(d projections.Difference) {
		if first == nil {
			first = &d
		}
	}, func(projections.Verification) {})
	if err == nil && first != nil {
		err = fmt.Errorf("the rows are not those of the log: %s", first)
	}
	return err
}

func (s *setting) replay(ctx context.Context, meter *projections.Meter, pace func(context.Context, int) error, do func(*projections.Replay) error) (time.Duration, error) {
	pool, err := pg.Open(ctx, s.url, pg.Options{MaxConns: 2*projections.DefaultReplayWorkers + 1, ReadBuffer: 64 << 10, Settings: projections.ReplaySettings()})
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	r, err := projections.NewReplay(projections.ReplayConfig{Pool: pool, Clock: time.Now, Meter: meter, Pace: pace})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = do(r)
	return time.Since(began), err
}

// rowBytes is what a row takes in memory while its workspace is folded: the
// live heap when the whole of the log is, for one workspace alone.
func (s *setting) rowBytes(ctx context.Context) (float64, error) {
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	var (
		meter        projections.Meter
		before, full = heap(), 0.0
	)
	_, err := s.replay(ctx, &meter, func(context.Context, int) error {
		if full == 0 && meter.RowsCompared.Load() > 0 {
			full = heap()
		}
		return nil
	}, func(r *projections.Replay) error {
		return s.verify(ctx, r, projections.VerifyRequest{WorkspaceID: workspaceName(0)})
	})
	if rows := meter.LargestRows.Load(); rows > 0 {
		return max(0, full-before) / float64(rows), err
	}
	return 0, err
}
