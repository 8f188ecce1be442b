// Package periodic runs work at intervals and logs when it begins to fail and
// when it works again, so that an outage is two log lines, however long it is.
package periodic

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
)

// Outage is the log state of a loop, or of several that do the same work: whether it
// failed the last time.
type Outage struct {
	Logger *slog.Logger

	// Failing is logged as a warning, with the error, at the first failure;
	// Working as information at the first success after it. Both lines have the
	// number of the outage.
	Failing, Working string

	number atomic.Int64 // of the outage that lasts; 0: none does
}

// outages gives numbers to the outages of this process. One pairs the line that begins one with the
// line that ends it.
var outages atomic.Int64 //nolint:gochecknoglobals // numbers are of the process

// Note takes the result of one time. The attributes go with the message that
// the outage is over.
func (o *Outage) Note(ctx context.Context, err error, attributes ...any) {
	if err != nil {
		if n := outages.Add(1); o.number.CompareAndSwap(0, n) {
			o.Logger.WarnContext(ctx, o.Failing, "error", err, "outage", n)
		}
		return
	}
	if n := o.number.Swap(0); n != 0 {
		o.Logger.InfoContext(ctx, o.Working, append(slices.Clip(attributes), "outage", n)...)
	}
}

// Run does work at once and then at every interval until ctx is done, and calls
// after with the result of each time. Work that failed is tried again at the next
// interval and not earlier, because it fails when a database is in trouble. The
// result of work that was under way when ctx ended is dropped: it says nothing
// about the database.
func Run(ctx context.Context, every time.Duration, outage *Outage, work func(context.Context) error, after func(error)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		err := work(ctx)
		if ctx.Err() != nil {
			return
		}
		outage.Note(ctx, err)
		after(err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
