package keys

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/console/chart"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// use is the last request of a key that the request log still has.
type use struct{ Method, Route string }

// onTheDay is true of a request l of a key on the day of its last use u. That moment, which
// is known to the minute, says in which part of the log the day is, so that each key costs
// one look into one index.
const onTheDay = `l.slot = (floor(extract(epoch FROM u.last_used_at) / 86400)::bigint % 32)::smallint
		          AND l.workspace_id = u.workspace_id AND l.key_id = u.key_id`

// lastUses returns the last request of each of the keys, of those that the log still
// has.
func lastUses(ctx context.Context, pool *pgxpool.Pool, workspaceID string, keyIDs []string) (map[string]use, error) {
	rows, err := pool.Query(ctx, `
		SELECT u.key_id, r.method, r.route
		  FROM api_key_use u
		 CROSS JOIN LATERAL (
		       SELECT l.method, l.route FROM request_log l
		        WHERE `+onTheDay+` AND l.at >= u.last_used_at - interval '1 minute'
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

// usual is the time whose use the pages show unless another one is chosen.
const usual = "day"

// usage is how much of its limit a key used.
type usage struct {
	rollup.KeyUse
	Limit int // requests a minute
}

// Share is how much of the limit the busiest minute used, in per cent.
func (u usage) Share() int64 { return share(u.Peak, u.Limit) }

// share is n of a limit in per cent, rounded down: 100 is all of it, and 0 is nothing.
func share(n int64, limit int) int64 {
	if n == 0 {
		return 0
	}
	return max(n*100/int64(max(limit, 1)), 1)
}

// charts show the use of a key in the chosen time.
type charts struct {
	usage
	Busiest  time.Time // start of the bar with the busiest minute
	Switch   []chart.Link
	Requests *chart.Chart
	Shares   *chart.Chart // of the limit, in the busiest minute of each bar
}

func (p *Pages) charts(r *web.Request, k *access.Record) (*charts, error) {
	chosen := chart.Choose(r.Query("range"), usual)
	in := rollup.Last(r.Now, chosen.Width, chosen.Spans)
	spans, err := p.Counts.Key(r.Context(), r.Session.WorkspaceID, in, k.ID)
	if err != nil {
		return nil, err
	}
	series := []chart.Series{{Name: "Answered", Look: chart.Good}, {Name: "Over the limit (429)", Look: chart.Bad}}
	bars, shares := chart.Empty(in.From, in.Width, in.Spans, len(series)), chart.Empty(in.From, in.Width, in.Spans, 1)
	c := &charts{usage: usage{rollup.KeyUse{KeyID: k.ID}, k.RateLimit}}
	c.Switch = chosen.Switch(func(name string) string { return web.Address("/keys/"+url.PathEscape(k.ID), "range", name) + "#use" })
	for _, s := range spans {
		bars[s.Span].Counts = []int64{s.Requests, s.RateLimited}
		shares[s.Span].Counts = []int64{share(s.Peak, k.RateLimit)}
		c.KeyUse.Requests += s.Requests
		c.RateLimited += s.RateLimited
		if s.Peak > c.Peak {
			c.Peak, c.Busiest = s.Peak, bars[s.Span].At
		}
	}
	days := in.Width > time.Hour
	c.Requests = chart.New("use", "Requests "+chosen.Title, "requests", bars, series).ByDay(days)
	c.Shares = chart.NewShares("shares", "Share of the limit in the busiest minute, "+chosen.Title, "requests", shares,
		chart.Series{Name: "Busiest minute (% of the limit)", Look: chart.Wait}).ByDay(days)
	return c, nil
}
