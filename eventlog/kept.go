package eventlog

import (
	"context"
	"fmt"
	"math"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// knownPlaces are places of a workspace's feed as they were when it was last read, so that they
// need not be searched for again.
type knownPlaces struct {
	kept    int64 // where it began; it moves with the clock, so it is nearly always there still; 0: not known
	visible int64 // where it ended
}

// placesOfFeeds are the places of the feeds of workspaces.
type placesOfFeeds = lru.Cache[string, knownPlaces]

// mostPlaces is of how many workspaces places are known.
const mostPlaces = 20_000

func newPlacesOfFeeds() *placesOfFeeds {
	places, _ := lru.New[string, knownPlaces](mostPlaces) // fails only for sizes below 1
	return places
}

func (f *Feed) known(workspaceID string) knownPlaces {
	known, _ := f.places.Get(workspaceID)
	return known
}

// KeptFrom returns the first position of a workspace that was published at
// oldest or later; one past the newest when there is none.
func (f *Feed) KeptFrom(ctx context.Context, workspaceID string, oldest time.Time) (int64, error) {
	oldest = inMicroseconds(oldest)
	known := f.known(workspaceID)
	if known.kept > 0 {
		entries := map[int64]entryAt{}
		if err := f.read(ctx, workspaceID, entriesStatement(entries, known.kept-1, known.kept)); err != nil {
			return 0, err
		}
		if begins(known.kept, oldest, entries, math.MaxInt64) {
			return known.kept, nil
		}
	}
	kept, err := f.searchKept(ctx, workspaceID, oldest)
	if err != nil {
		return 0, err
	}
	known.kept = kept
	f.places.Add(workspaceID, known)
	return kept, nil
}

// inMicroseconds is a time as the database gets it, so that both compare alike.
func inMicroseconds(t time.Time) time.Time { return t.Truncate(time.Microsecond) }

// searchKept is KeptFrom without what is known.
func (f *Feed) searchKept(ctx context.Context, workspaceID string, oldest time.Time) (kept int64, err error) {
	err = f.read(ctx, workspaceID, statement{
		sql:     `SELECT log_position_since($1::text, $2)`,
		args:    []any{oldest},
		columns: []any{&kept},
		each:    func() {},
	})
	if err != nil {
		return 0, fmt.Errorf("find where it begins: %w", err)
	}
	return kept, nil
}

// entryAt is what a page needs to know of an entry.
type entryAt struct {
	Mark

	createdAt time.Time
}

// entriesStatement reads those of the entries at positions that are in the log.
func entriesStatement(into map[int64]entryAt, positions ...int64) statement {
	var (
		position  int64
		createdAt time.Time
		chain     []byte
	)
	return statement{
		// As position = ANY ($2) it would read the whole log of a workspace that has more entries than
		// most, because the plan is the same for all.
		sql: `SELECT e.* FROM unnest($2::bigint[]) AS k (position) CROSS JOIN LATERAL (
		        SELECT e.position, e.created_at, ` + ChainStart + ` FROM event_log e
		         WHERE e.workspace_id = $1 AND e.position BETWEEN k.position AND k.position ORDER BY e.position LIMIT 1) AS e`,
		args:    []any{positions},
		columns: []any{&position, &createdAt, &chain},
		each:    func() { into[position] = entryAt{NewMark(position, chain), createdAt} },
	}
}

// begins reports whether the feed begins at a position, from the entries there and before: the
// one is not published before oldest, the other is. Publish times rise with the positions. What
// is above the visible position does not matter: it may have been appended since.
func begins(position int64, oldest time.Time, entries map[int64]entryAt, visible int64) bool {
	if e, found := entries[position]; found && position <= visible && e.createdAt.Before(oldest) {
		return false
	}
	e, found := entries[position-1]
	return found && e.createdAt.Before(oldest) || position == 1
}
