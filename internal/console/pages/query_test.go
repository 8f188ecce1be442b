package pages

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) {
	testkit.MainAs(m, migrations.Up, migrations.ApplyGrants)
}

// planNode is what the test looks at in a plan.
type planNode struct {
	Table   string     `json:"Relation Name"`
	Rows    float64    `json:"Actual Rows"`
	Removed float64    `json:"Rows Removed by Filter"`
	Loops   float64    `json:"Actual Loops"`
	Plans   []planNode `json:"Plans"`
}

// read is how many rows a plan read from tables, and from how many partitions.
func (n *planNode) read() (rows float64, partitions int) {
	if n.Table != "" && n.Loops > 0 {
		rows, partitions = (n.Rows+n.Removed)*n.Loops, 1
	}
	for i := range n.Plans {
		r, p := n.Plans[i].read()
		rows, partitions = rows+r, partitions+p
	}
	return rows, partitions
}

func explain(ctx context.Context, pool testkit.DB, q *requestsQuery) (*planNode, error) {
	sql, args, _ := q.statement()
	var text string
	if err := pool.QueryRow(ctx, "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) "+sql, args...).Scan(&text); err != nil {
		return nil, err
	}
	var plans []struct{ Plan planNode }
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		return nil, err
	}
	return &plans[0].Plan, nil
}

// TestSearchesReadLittle: with 100,000 requests of a month, no search reads more than
// its bound, and those for which there is an index read little more than they list. A
// time reads the partitions of its days alone.
func TestSearchesReadLittle(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t)
	now := time.Now().UTC()
	// Before this day, so that no day has so few rows, by the time of the day, that they are read whole.
	testkit.AsOwner(t, pool, `
		INSERT INTO request_log (slot, workspace_id, at, request_id, key_id, key_prefix, method, route, status, duration_us, bytes, row_count, record_id, path)
		SELECT (extract(epoch FROM a.at)::bigint / 86400) % 32, 'acme', a.at, 'req_' || md5(g::text), 'key_' || g % 3, 'service_AbCdEfGh', 'GET',
		       (ARRAY['/v1/invoices', '/v1/events', '/v1/time-entries', '/v1/clients/{id}'])[1 + g % 4],
		       CASE WHEN g % 500 = 0 THEN 404 WHEN g % 900 = 0 THEN 500 ELSE 200 END, 900, 400, 1, gen_random_uuid(), CASE WHEN g % 4 = 3 THEN '/v1/clients/cl_' || g % 1000 END
		  FROM generate_series(1, 100000) g CROSS JOIN LATERAL (SELECT date_trunc('day', now(), 'UTC') - g * interval '25 seconds' AS at) a;
		ANALYZE request_log`)
	page := requestsQuery{workspaceID: "acme", since: now.Add(-30 * 24 * time.Hour), now: now, start: newest(), limit: requestsPageSize}
	day := now.Add(-10 * 24 * time.Hour).Truncate(24 * time.Hour)
	const (
		month     = 32
		lookahead = 2 * month // a merge reads a row of each partition ahead
		errors    = 100_000/500 + 100_000/900
	)
	for name, c := range map[string]struct {
		filter     filter
		rows       float64
		partitions int
	}{
		"no filter":       {filter{}, requestsPageSize + lookahead, month},
		"a request":       {filter{requestID: "req_c4ca4238a0b923820dcc509a6f75849b"}, lookahead, month},
		"no request":      {filter{requestID: "req_none"}, 0, month},
		"a path":          {filter{path: "/v1/clients/cl_3"}, requestsPageSize + lookahead, month},
		"no path":         {filter{path: "/v1/clients/none"}, 0, month},
		"a status":        {filter{status: "404"}, errors, month},
		"server errors":   {filter{status: "5"}, errors, month},
		"a rare status":   {filter{status: "204"}, maxScan + lookahead, month},
		"a key":           {filter{key: "key_1"}, requestsPageSize + lookahead, month},
		"no key":          {filter{key: "key_none"}, 0, month},
		"a key's errors":  {filter{key: "key_1", status: "404"}, errors, month},
		"a route":         {filter{route: "/v1/events"}, 4*requestsPageSize + 4 + lookahead, month},
		"an unused route": {filter{route: "/v1/me"}, maxScan + lookahead, month},
		"a day":           {filter{from: day, to: day.Add(24 * time.Hour)}, requestsPageSize + 4, 2},
		"an hour's error": {filter{from: day, to: day.Add(time.Hour), status: "503"}, errors, 1},
	} {
		for _, newer := range []bool{false, true} {
			q := page
			q.filter = c.filter
			if newer {
				q.start = position{At: q.since, Newer: true}
			}
			plan, err := explain(t.Context(), pool, &q)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			rows, partitions := plan.read()
			t.Logf("%-16s newer %-5v %6.0f rows of %d partitions", name, newer, rows, partitions)
			if rows > c.rows || partitions > c.partitions {
				t.Errorf("%s (newer: %v) reads %.0f rows of %d partitions, want at most %.0f of %d", name, newer, rows, partitions, c.rows, c.partitions)
			}
		}
	}
	if sql, _, _ := page.statement(); strings.Contains(sql, "OFFSET") {
		t.Error("pages are counted off")
	}
}
