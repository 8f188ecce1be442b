package replay

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// RateLimiter waits until n more entries or rows may be processed. It is called
// from several goroutines.
type RateLimiter func(ctx context.Context, n int) error

// NewRateLimiter lets rate entries and rows through per second, over all workspaces in progress.
// Unlike a token bucket it does not save up unused time.
func NewRateLimiter(rate int) RateLimiter {
	var (
		mu   sync.Mutex
		next time.Time
	)
	return func(ctx context.Context, n int) error {
		mu.Lock()
		if now := time.Now(); next.Before(now) {
			next = now
		}
		next = next.Add(time.Duration(n) * time.Second / time.Duration(rate))
		wait := time.NewTimer(time.Until(next))
		mu.Unlock()
		defer wait.Stop()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-wait.C:
			return nil
		}
	}
}

const (
	// yieldingRate is the rate that a machine with two processors can spare for a replay: appends
	// become at most about a tenth slower, and readers do not wait for a processor.
	yieldingRate = 10_000

	// busyFrom is how many appended entries and answered requests per second make the service count
	// as busy.
	busyFrom = 5

	checkEvery = time.Second

	// knownAfter is how long it takes until the statistics show what other
	// processes do: requests are recorded once a second, and a connection reports
	// its counts once a second.
	knownAfter = 3 * time.Second

	// staysBusy is how long the service counts as busy after the last activity:
	// requests are recorded in batches, and come in bursts.
	staysBusy = 10 * time.Second
)

// NewYieldingRateLimiter limits the rate only while any process appends entries or answers requests
// of the API.
func NewYieldingRateLimiter(pool pg.DB) RateLimiter {
	y := &yieldingLimiter{pool: pool, clock: time.Now, slowly: NewRateLimiter(yieldingRate)}
	return y.wait
}

// yieldingLimiter checks regularly how busy the service is.
type yieldingLimiter struct {
	pool   pg.DB
	clock  func() time.Time
	slowly RateLimiter

	mu        sync.Mutex // guards the rest
	checkedAt time.Time
	activity  int64 // entries in the log and recorded requests, according to the statistics
	busyUntil time.Time
	busy      bool
}

func (y *yieldingLimiter) wait(ctx context.Context, n int) error {
	busy, err := y.check(ctx)
	if err != nil || !busy {
		return err
	}
	return y.slowly(ctx, n)
}

func (y *yieldingLimiter) check(ctx context.Context) (busy bool, err error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	now := y.clock()
	since := now.Sub(y.checkedAt)
	if since < checkEvery {
		return y.busy, nil
	}
	activity, err := y.read(ctx)
	if err != nil {
		return false, fmt.Errorf("read how busy the service is: %w", err)
	}
	switch {
	case y.checkedAt.IsZero():
		y.busyUntil = now.Add(knownAfter) // assume that it is busy until the statistics are known
	case float64(activity-y.activity) >= busyFrom*since.Seconds():
		y.busyUntil = now.Add(staysBusy)
	}
	y.busy = now.Before(y.busyUntil)
	y.checkedAt, y.activity = now, activity
	return y.busy, nil
}

// SQL that counts the inserted rows, from the server's statistics.
const (
	activityTables = `SELECT 'event_log'::regclass AS name UNION ALL SELECT inhrelid FROM pg_inherits WHERE inhparent = 'request_log'::regclass`

	activitySQL = `SELECT coalesce(sum(pg_stat_get_tuples_inserted(name)), 0)::bigint FROM (` + activityTables + `) t`
)

// read returns how many entries and request records were inserted.
func (y *yieldingLimiter) read(ctx context.Context) (activity int64, err error) {
	err = y.pool.QueryRow(ctx, activitySQL).Scan(&activity)
	return activity, err
}
