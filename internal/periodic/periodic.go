// Package periodic runs work at intervals and logs when it begins to fail and
// when it works again, so that an outage is two log lines, however long it is.
package periodic

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// Outage is the log state of a loop, or of several that do the same work: whether it
// failed the last time.
type Outage struct {
	Logger *slog.Logger

	// Failing is logged as a warning, with the error and with Working as the message that
	// will tell of the end, at the first failure; Working as information at the first
	// success after it.
	Failing, Working string

	failing atomic.Bool
}

// Note takes the result of one time. The attributes go with the message that
// the outage is over.
func (o *Outage) Note(ctx context.Context, err error, attributes ...any) {
	switch failed := o.failing.Swap(err != nil); {
	case err != nil && !failed:
		o.Logger.WarnContext(ctx, o.Failing, "error", err, "until", o.Working)
	case err == nil && failed:
		o.Logger.InfoContext(ctx, o.Working, attributes...)
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
