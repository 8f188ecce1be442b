package logbench

import (
	"context"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
)

// benchTraced compares appends of which 1 % are traced with the same without traces.
// Commits do not wait for the disk, whose moods are greater than what is looked for.
func benchTraced(ctx context.Context, o *measure.Options) error {
	return measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) error {
		drafts, err := workload.Samples(20_000)
		if err != nil {
			return err
		}
		a := appends{Database: db, drafts: drafts}
		if err := db.DoNotWaitForDisk(ctx); err != nil {
			return err
		}
		if err := a.prepare(ctx); err != nil {
			return err
		}
		return o.Traced(ctx, "append single entries, 16 callers, 1 % of them traced", func(traces *tracing.Traces) (float64, error) {
			pool, err := pg.Open(ctx, db.URL, pg.Options{MaxConns: 24, Tracer: traces.Statements()})
			if err != nil {
				return 0, err
			}
			defer pool.Close()
			traced := a
			traced.Database = &measure.Database{Options: o, URL: db.URL, Pool: pool, Notifier: db.Notifier}
			if traced.Log, err = eventlog.New(eventlog.Config{Pool: pool, Clock: time.Now, Notify: db.Notifier.Notify, Tracer: traces.Tracer()}); err != nil {
				return 0, err
			}
			n, took, _, err := measure.Repeat(ctx, appendCallers, a.Duration(appendTime), traced.appendOne)
			return measure.PerSecond(n, took), err
		})
	})
}
