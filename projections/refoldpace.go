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
	// its appends becoming more than about a tenth slower.
	gentleRate = 15_000

	// busyFrom is how many entries a second count as a service at work.
	busyFrom = 10

	lookEvery = time.Second
)

// NewYieldingPace makes a ReplayConfig.Pace that goes as fast as it can, but
// slowly while entries are being appended, by whichever program.
func NewYieldingPace(pool *pgxpool.Pool) func(ctx context.Context, n int) error {
	y := &yielding{pool: pool, gently: NewPace(gentleRate)}
	return y.take
}

// yielding looks from time to time how much is appended.
type yielding struct {
	pool   *pgxpool.Pool
	gently func(context.Context, int) error

	mu       sync.Mutex
	looked   time.Time
	appended int64 // entries in the log, as the statistics have it
	busy     bool
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
	since := time.Since(y.looked)
	if since < lookEvery {
		return y.busy, nil
	}
	var appended int64
	err = y.pool.QueryRow(ctx, `SELECT coalesce(pg_stat_get_tuples_inserted('event_log'::regclass), 0)`).Scan(&appended)
	if err != nil {
		return false, fmt.Errorf("look how much is appended: %w", err)
	}
	// Until it is known better, somebody is at work.
	y.busy = y.looked.IsZero() || float64(appended-y.appended) >= busyFrom*since.Seconds()
	y.looked, y.appended = time.Now(), appended
	return y.busy, nil
}
