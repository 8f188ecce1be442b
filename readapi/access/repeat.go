package access

import (
	"context"
	"log/slog"
	"time"
)

// mood is what is said when work that is repeated begins to fail, and when it
// works again: an outage is told of twice, however long it is.
type mood struct {
	log              *slog.Logger
	failing, working string
}

// repeat does work at once and then every so often until ctx is done, and tells
// after of each time. Work that failed is only tried again at its next turn: the
// database that is in trouble must not be asked more often than a sound one.
func repeat(ctx context.Context, every time.Duration, work func(context.Context) error, after func(error), m mood) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	failing := false
	for {
		err := work(ctx)
		if ctx.Err() != nil {
			return // whatever came of it says nothing about the database
		}
		switch {
		case err != nil && !failing:
			m.log.WarnContext(ctx, m.failing, "error", err)
		case err == nil && failing:
			m.log.InfoContext(ctx, m.working)
		}
		failing = err != nil
		after(err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
