package console

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// quarter is the width of what is counted at once. Midnight begins one.
	quarter = 15 * time.Minute
	// settle is how long after its end a quarter may still get requests:
	// instances write them some moments after they were answered.
	settle = time.Minute
	// maxTallies bounds the workspaces whose counts are remembered, at some
	// 10 KiB each.
	maxTallies = 500
)

// tallies counts the requests of the last day. What a quarter of an hour held
// never changes once it is over, so it is counted once and remembered: a page
// costs the same however many requests there were.
type tallies struct {
	pool *pgxpool.Pool

	mu   sync.Mutex
	held map[string]*tally
}

// tally is the counts of one workspace.
type tally struct {
	mu       sync.Mutex
	used     time.Time                  // guarded by tallies.mu
	quarters map[time.Time][]tallyCount // those that are over, by their beginning
}

// tallyCount is how often a key got answers of a class.
type tallyCount struct {
	keyID string
	class int // first digit of the status
	n     int64
}

func newTallies(pool *pgxpool.Pool) *tallies {
	return &tallies{pool: pool, held: map[string]*tally{}}
}

// of gives the workspace's tally, and forgets the one that was not asked for
// the longest when there are too many.
func (t *tallies) of(workspaceID string, now time.Time) *tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := t.held[workspaceID]
	if found == nil {
		if len(t.held) >= maxTallies {
			oldest := ""
			for id, other := range t.held {
				if oldest == "" || other.used.Before(t.held[oldest].used) {
					oldest = id
				}
			}
			delete(t.held, oldest)
		}
		found = &tally{quarters: map[time.Time][]tallyCount{}}
		t.held[workspaceID] = found
	}
	found.used = now
	return found
}

// day gives the counts of each quarter of the last 24 hours, the one that runs
// among them, by its beginning.
func (t *tallies) day(ctx context.Context, workspaceID string, now time.Time) (map[time.Time][]tallyCount, error) {
	held := t.of(workspaceID, now)
	held.mu.Lock()
	defer held.mu.Unlock()
	first := now.Truncate(quarter).Add(-24*time.Hour + quarter)
	// From the first quarter that is not known, all are counted anew.
	from := first
	for !from.After(now) {
		if _, known := held.quarters[from]; !known {
			break
		}
		from = from.Add(quarter)
	}
	counted, err := t.count(ctx, workspaceID, from)
	if err != nil {
		return nil, err
	}
	all := map[time.Time][]tallyCount{}
	for at := first; !at.After(now); at = at.Add(quarter) {
		if at.Before(from) {
			all[at] = held.quarters[at]
			continue
		}
		all[at] = counted[at]
		if !at.Add(quarter + settle).After(now) {
			held.quarters[at] = counted[at]
		}
	}
	for at := range held.quarters {
		if at.Before(first) {
			delete(held.quarters, at)
		}
	}
	return all, nil
}

func (t *tallies) count(ctx context.Context, workspaceID string, from time.Time) (map[time.Time][]tallyCount, error) {
	rows, err := t.pool.Query(ctx, `
		SELECT date_bin('15 minutes', at, 'epoch'), key_id, status / 100, count(*) FROM request_log
		 WHERE workspace_id = $1 AND at >= $2 GROUP BY 1, 2, 3`, workspaceID, from)
	if err != nil {
		return nil, fmt.Errorf("count requests: %w", err)
	}
	counted := map[time.Time][]tallyCount{}
	var (
		at time.Time
		c  tallyCount
	)
	_, err = pgx.ForEachRow(rows, []any{&at, &c.keyID, &c.class, &c.n}, func() error {
		counted[at.UTC()] = append(counted[at.UTC()], c)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count requests: %w", err)
	}
	return counted, nil
}

// today gives how many requests each key made since midnight, UTC.
func (h *history) today(ctx context.Context, workspaceID string) (map[string]int64, error) {
	now := h.clock().UTC()
	quarters, err := h.tallies.day(ctx, workspaceID, now)
	if err != nil {
		return nil, err
	}
	today := map[string]int64{}
	midnight := now.Truncate(24 * time.Hour)
	for at, list := range quarters {
		for _, c := range list {
			if !at.Before(midnight) {
				today[c.keyID] += c.n
			}
		}
	}
	return today, nil
}

// Kinds of bars in charts of requests.
const (
	kindSucceeded = iota
	kindClient
	kindServer
	kindRefused
	requestKinds
)

func kindOf(class int) int {
	switch class {
	case 5:
		return kindServer
	case 4:
		return kindClient
	}
	return kindSucceeded
}

// requestsOfDay counts requests by quarters of an hour over 24 hours.
func (h *history) requestsOfDay(ctx context.Context, workspaceID string) ([]bar, error) {
	now := h.clock().UTC()
	quarters, err := h.tallies.day(ctx, workspaceID, now)
	if err != nil {
		return nil, err
	}
	bars := emptyBars(now.Truncate(quarter).Add(-24*time.Hour+quarter), quarter, int(24*time.Hour/quarter), requestKinds)
	for i := range bars {
		for _, c := range quarters[bars[i].At] {
			bars[i].Counts[kindOf(c.class)] += c.n
		}
	}
	return bars, h.addRefused(ctx, workspaceID, bars, quarter)
}

// requestsOfHour counts requests by minutes over an hour.
func (h *history) requestsOfHour(ctx context.Context, workspaceID string) ([]bar, error) {
	bars := emptyBars(h.clock().UTC().Truncate(time.Minute).Add(-59*time.Minute), time.Minute, 60, requestKinds)
	rows, err := h.pool.Query(ctx, `
		SELECT date_trunc('minute', at), status / 100, count(*) FROM request_log
		 WHERE workspace_id = $1 AND at >= $2 GROUP BY 1, 2`, workspaceID, bars[0].At)
	if err != nil {
		return nil, fmt.Errorf("count requests: %w", err)
	}
	var (
		at    time.Time
		class int
		n     int64
	)
	_, err = pgx.ForEachRow(rows, []any{&at, &class, &n}, func() error {
		addTo(bars, at, time.Minute, kindOf(class), n)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count requests: %w", err)
	}
	return bars, h.addRefused(ctx, workspaceID, bars, time.Minute)
}

func (h *history) addRefused(ctx context.Context, workspaceID string, bars []bar, width time.Duration) error {
	rows, err := h.pool.Query(ctx, `
		SELECT minute, sum(refused)::bigint FROM request_refused WHERE workspace_id = $1 AND minute >= $2 GROUP BY 1`,
		workspaceID, bars[0].At)
	if err != nil {
		return fmt.Errorf("count refused requests: %w", err)
	}
	var (
		at time.Time
		n  int64
	)
	_, err = pgx.ForEachRow(rows, []any{&at, &n}, func() error {
		addTo(bars, at, width, kindRefused, n)
		return nil
	})
	if err != nil {
		return fmt.Errorf("count refused requests: %w", err)
	}
	return nil
}

// addTo adds to the bar that a moment falls into, if any.
func addTo(bars []bar, at time.Time, width time.Duration, kind int, n int64) {
	if at.Before(bars[0].At) {
		return
	}
	if i := int(at.Sub(bars[0].At) / width); i < len(bars) {
		bars[i].Counts[kind] += n
	}
}
