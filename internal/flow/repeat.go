package flow

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
)

// Outage is the log state of a loop, or of several loops that do the same work: whether the last
// run failed. An outage is two log lines, however long it is.
type Outage struct {
	Logger *slog.Logger

	// Failing is logged as a warning, with the error, at the first failure;
	// Working as information at the first success after it. Both lines have the
	// number of the outage.
	Failing, Working string

	number atomic.Int64 // of the current outage; 0: none
}

// outages numbers the outages of this process. The number pairs the line that begins an outage with
// the line that ends it.
var outages atomic.Int64 //nolint:gochecknoglobals // numbers are per process

// LogTransition takes the result of one run. attributes go into the line that ends an outage.
func (o *Outage) LogTransition(ctx context.Context, err error, attributes ...any) {
	if err != nil {
		if o.number.Load() != 0 {
			return
		}
		if n := outages.Add(1); o.number.CompareAndSwap(0, n) {
			o.Logger.WarnContext(ctx, o.Failing, "error", err, "outage_number", n)
		}
		return
	}
	if n := o.number.Swap(0); n != 0 {
		o.Logger.InfoContext(ctx, o.Working, append(slices.Clip(attributes), "outage_number", n)...)
	}
}

// Repeat does work at once and then at every interval until ctx is done, and calls after with each
// result. Work that failed is retried at the next interval and not earlier, because it fails when a
// database is in trouble. The result of work that was in flight when ctx ended is dropped: it says
// nothing about the database.
func Repeat(ctx context.Context, every time.Duration, outage *Outage, work func(context.Context) error, after func(error)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		err := work(ctx)
		if ctx.Err() != nil {
			return
		}
		outage.LogTransition(ctx, err)
		after(err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Sleep waits for d, and reports false when ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
