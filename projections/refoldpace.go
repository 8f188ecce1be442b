package projections

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// NewPace makes a ReplayConfig.Pace that lets so many entries and rows through
// in a second, over all workspaces under way. Time that was not used is not
// saved up.
func NewPace(rate int) func(ctx context.Context, n int) error {
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
	// gentleRate is what a machine of two processors gives to a replay without
	// its appends becoming more than about a tenth slower, or its readers waiting
	// for a processor.
	gentleRate = 10_000

	// busyFrom is how many entries appended and requests answered in a second
	// count as a service at work.
	busyFrom = 5

	lookEvery = time.Second

	// knownAfter is when what others do is known: requests are recorded once a
	// second, and a connection tells its counts once a second.
	knownAfter = 3 * time.Second

	// staysBusy is for how long a service counts as at work after it last was:
	// requests are recorded in batches, and come in bursts.
	staysBusy = 10 * time.Second
)

// NewYieldingPace makes a ReplayConfig.Pace that goes as fast as it can, but
// slowly while entries are being appended or the API is being read, by
// whichever program.
func NewYieldingPace(pool *pgxpool.Pool) func(ctx context.Context, n int) error {
	y := &yielding{pool: pool, clock: time.Now, gently: NewPace(gentleRate)}
	return y.take
}

// yielding looks from time to time how much others do.
type yielding struct {
	pool   *pgxpool.Pool
	clock  func() time.Time
	gently func(context.Context, int) error

	mu     sync.Mutex
	looked time.Time
	done   int64     // entries in the log and requests on record, as the statistics have it
	until  time.Time // the service counts as at work
	busy   bool
}

func (y *yielding) take(ctx context.Context, n int) error {
	busy, err := y.look(ctx)
	if err != nil || !busy {
		return err
	}
	return y.gently(ctx, n)
}

func (y *yielding) look(ctx context.Context) (busy bool, err error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	now := y.clock()
	since := now.Sub(y.looked)
	if since < lookEvery {
		return y.busy, nil
	}
	var done int64
	err = y.pool.QueryRow(ctx, `
		SELECT coalesce(pg_stat_get_tuples_inserted('event_log'::regclass), 0)
		     + coalesce(sum(pg_stat_get_tuples_inserted(inhrelid)), 0)::bigint
		  FROM pg_inherits WHERE inhparent = 'request_log'::regclass`).Scan(&done)
	if err != nil {
		return false, fmt.Errorf("look how much others do: %w", err)
	}
	switch {
	case y.looked.IsZero():
		y.until = now.Add(knownAfter) // until it is known better, somebody is at work
	case float64(done-y.done) >= busyFrom*since.Seconds():
		y.until = now.Add(staysBusy)
	}
	y.busy = now.Before(y.until)
	y.looked, y.done = now, done
	return y.busy, nil
}
