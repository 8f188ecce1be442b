package requests

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// quarter is the span that requests are counted by. One starts at midnight.
	quarter = 15 * time.Minute
	// lateness is how long after its end a quarter may still get requests, because
	// instances write them some moments after answering.
	lateness = time.Minute
	// maxWorkspaces bounds the workspaces whose counts are cached, at some 10 KiB
	// each.
	maxWorkspaces = 500
)

// Counts counts the requests of the last day by quarters of an hour. A quarter
// that is over never changes, so its counts are cached: a page costs the same
// however many requests there were. It is safe for concurrent use.
type Counts struct {
	pool *pgxpool.Pool

	mu     sync.Mutex
	cached map[string]*workspaceCounts // by workspace; guarded by mu
}

// workspaceCounts are the cached counts of one workspace.
type workspaceCounts struct {
	mu       sync.Mutex
	used     time.Time             // guarded by Counts.mu
	quarters map[time.Time][]count // those that are over, by their start; guarded by mu
}

// count is how many responses of a class a key got.
type count struct {
	keyID string
	class int // first digit of the status
	n     int64
}

// NewCounts makes a Counts without any.
func NewCounts(pool *pgxpool.Pool) *Counts {
	return &Counts{pool: pool, cached: map[string]*workspaceCounts{}}
}

// Today returns how many requests each key has made since midnight, UTC.
func (c *Counts) Today(ctx context.Context, workspaceID string, now time.Time) (byKey map[string]int64, err error) {
	quarters, err := c.day(ctx, workspaceID, now)
	if err != nil {
		return nil, err
	}
	byKey = map[string]int64{}
	midnight := now.Truncate(24 * time.Hour)
	for at, list := range quarters {
		for _, c := range list {
			if !at.Before(midnight) {
				byKey[c.keyID] += c.n
			}
		}
	}
	return byKey, nil
}

// of returns the workspace's counts. When there are too many, it drops those that
// were not used for the longest time.
func (c *Counts) of(workspaceID string, now time.Time) *workspaceCounts {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.cached[workspaceID]
	if found == nil {
		if len(c.cached) >= maxWorkspaces {
			oldest := ""
			for id, other := range c.cached {
				if oldest == "" || other.used.Before(c.cached[oldest].used) {
					oldest = id
				}
			}
			delete(c.cached, oldest)
		}
		found = &workspaceCounts{quarters: map[time.Time][]count{}}
		c.cached[workspaceID] = found
	}
	found.used = now
	return found
}

// day returns the counts of each quarter of the last 24 hours, the present one
// included, by its start.
func (c *Counts) day(ctx context.Context, workspaceID string, now time.Time) (map[time.Time][]count, error) {
	cached := c.of(workspaceID, now)
	cached.mu.Lock()
	defer cached.mu.Unlock()
	first := now.Truncate(quarter).Add(-24*time.Hour + quarter)
	// From the first quarter that is not cached, all are counted again.
	from := first
	for !from.After(now) {
		if _, known := cached.quarters[from]; !known {
			break
		}
		from = from.Add(quarter)
	}
	counted, err := c.read(ctx, workspaceID, from)
	if err != nil {
		return nil, err
	}
	all := map[time.Time][]count{}
	for at := first; !at.After(now); at = at.Add(quarter) {
		if at.Before(from) {
			all[at] = cached.quarters[at]
			continue
		}
		all[at] = counted[at]
		if !at.Add(quarter + lateness).After(now) {
			cached.quarters[at] = counted[at]
		}
	}
	for at := range cached.quarters {
		if at.Before(first) {
			delete(cached.quarters, at)
		}
	}
	return all, nil
}

func (c *Counts) read(ctx context.Context, workspaceID string, from time.Time) (map[time.Time][]count, error) {
	rows, err := c.pool.Query(ctx, `
		SELECT date_bin('15 minutes', at, 'epoch'), key_id, status / 100, count(*) FROM request_log
		 WHERE workspace_id = $1 AND at >= $2 GROUP BY 1, 2, 3`, workspaceID, from)
	if err != nil {
		return nil, fmt.Errorf("cannot count requests: %w", err)
	}
	counted := map[time.Time][]count{}
	var (
		at  time.Time
		one count
	)
	_, err = pgx.ForEachRow(rows, []any{&at, &one.keyID, &one.class, &one.n}, func() error {
		counted[at.UTC()] = append(counted[at.UTC()], one)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot count requests: %w", err)
	}
	return counted, nil
}
