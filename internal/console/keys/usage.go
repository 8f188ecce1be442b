package keys

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/console/chart"
)

// use is the last request of a key that the request log still has.
type use struct{ Method, Route string }

// lastUses returns the last request of each of the keys, of those that the log still
// has. The moment of the last use, which is known to the minute, says in which part of the
// log it is, so that each key costs one look into one index.
func lastUses(ctx context.Context, pool *pgxpool.Pool, workspaceID string, keyIDs []string) (map[string]use, error) {
	rows, err := pool.Query(ctx, `
		SELECT u.key_id, r.method, r.route
		  FROM api_key_use u
		 CROSS JOIN LATERAL (
		       SELECT l.method, l.route FROM request_log l
		        WHERE l.slot = (floor(extract(epoch FROM u.last_used_at) / 86400)::bigint % 32)::smallint
		          AND l.workspace_id = u.workspace_id AND l.key_id = u.key_id AND l.at >= u.last_used_at - interval '1 minute'
		        ORDER BY l.at DESC LIMIT 1) r
		 WHERE u.workspace_id = $1 AND u.key_id = ANY ($2)`, workspaceID, keyIDs)
	if err != nil {
		return nil, fmt.Errorf("cannot look for the last requests of keys: %w", err)
	}
	var (
		found = map[string]use{}
		id    string
		last  use
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &last.Method, &last.Route}, func() error {
		found[id] = last
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot look for the last requests of keys: %w", err)
	}
	return found, nil
}

// maxCounted bounds the requests that one page counts; the limit of a key can be a
// million a minute.
const maxCounted = 50_000

// usage is how much of its limit a key uses.
type usage struct {
	Chart   *chart.Chart // of the last hour, by minutes
	Busiest int64        // requests in the busiest minute of the last hour, refused ones included
	At      time.Time    // that minute
	Partly  bool         // only the newest maxCounted requests were counted
	Refused int64        // requests over the limit (429) in the last 24 hours
}

// usageOf counts the requests of a key.
func usageOf(ctx context.Context, pool *pgxpool.Pool, workspaceID, keyID string, now time.Time) (*usage, error) {
	const answered, refused = 0, 1
	series := []chart.Series{{Name: "Answered", Look: chart.Good}, {Name: "Over the limit (429)", Look: chart.Bad}}
	bars := chart.Empty(now.Truncate(time.Minute).Add(-59*time.Minute), time.Minute, 60, len(series))
	rows, err := pool.Query(ctx, `
		SELECT date_trunc('minute', at), count(*) FROM (
		       SELECT at FROM request_log WHERE workspace_id = $1 AND key_id = $2 AND at >= $3 ORDER BY at DESC LIMIT $4) newest
		 GROUP BY 1`, workspaceID, keyID, bars[0].At, maxCounted)
	if err != nil {
		return nil, fmt.Errorf("cannot count the requests of a key: %w", err)
	}
	var (
		u   = &usage{}
		at  time.Time
		n   int64
		all int64
	)
	_, err = pgx.ForEachRow(rows, []any{&at, &n}, func() error {
		chart.Add(bars, at, time.Minute, answered, n)
		all += n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot count the requests of a key: %w", err)
	}
	u.Partly = all == maxCounted
	rows, err = pool.Query(ctx, `
		SELECT minute, refused FROM request_refused
		 WHERE workspace_id = $1 AND minute > $2 AND reason = 'rate_limit' AND key_id = $3`, workspaceID, now.Add(-24*time.Hour), keyID)
	if err != nil {
		return nil, fmt.Errorf("cannot count the refused requests of a key: %w", err)
	}
	_, err = pgx.ForEachRow(rows, []any{&at, &n}, func() error {
		chart.Add(bars, at, time.Minute, refused, n)
		u.Refused += n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot count the refused requests of a key: %w", err)
	}
	for i := range bars {
		if sum := bars[i].Counts[answered] + bars[i].Counts[refused]; sum > u.Busiest {
			u.Busiest, u.At = sum, bars[i].At
		}
	}
	u.Chart = chart.New("usage", "Requests per minute in the last hour", "requests", bars, series)
	return u, nil
}
