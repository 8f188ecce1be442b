package pages

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

const acme = "acme"

// pages are those of the request log, over requests that a store has written and counted.
func pages(t *testing.T, now time.Time, records []requestlog.Record) *Requests {
	t.Helper()
	pool := testkit.Pool(t)
	store := testkit.Must(requestlog.New(requestlog.Config{Pool: pool, Clock: func() time.Time { return now }, Logger: testkit.Discard()}))(t)
	for i := range records {
		store.Record(&records[i])
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := store.Run(ctx); err != nil || store.Dropped() > 0 {
		t.Fatalf("%d requests were dropped: %v", store.Dropped(), err)
	}
	return &Requests{Pool: pool, Rollups: rollup.NewReader(pool), Retention: 30 * 24 * time.Hour}
}

// history are requests of the days before now: most of them of a few hours, the last of them
// of the present minute.
func history(now time.Time, n int) []requestlog.Record {
	random := rand.New(rand.NewPCG(1, 2))
	var list []requestlog.Record
	for i := range n {
		var back time.Duration
		switch i % 4 {
		case 0:
			back = time.Duration(random.Int64N(int64(33 * 24 * time.Hour)))
		case 1:
			back = time.Duration(random.Int64N(int64(30 * time.Hour)))
		default:
			back = time.Duration(random.Int64N(int64(8 * time.Hour)))
		}
		r := requestlog.Record{
			At: now.Add(-back), WorkspaceID: acme, KeyID: fmt.Sprint("key_", random.IntN(3)), Method: "GET", Route: "/v1/invoices",
			Status: []int{200, 204, 304, 400, 403, 404, 499, 500, 503}[random.IntN(9)],
		}
		if reason := []string{"", "", "", "rate_limit", "revoked", "method"}[random.IntN(6)]; reason != "" {
			r.Refusal, r.Status = reason, statusOf(reason)
		}
		if i%50 == 0 {
			r.WorkspaceID = "other"
		}
		list = append(list, r)
	}
	return list
}

// TestChartsOfCountsAndOfRowsAreTheSame: for every filter and time that counts by interval
// can answer, they give the bars that counting the rows gives.
func TestChartsOfCountsAndOfRowsAreTheSame(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 14, 37, 12, 345_000_000, time.UTC)
	p := pages(t, now, history(now, 12_000))
	drawn := 0
	rapid.Check(t, func(t *rapid.T) {
		f := filter{
			key:    rapid.SampledFrom([]string{"", "key_0", "key_1", "key_none"}).Draw(t, "key"),
			status: rapid.SampledFrom([]string{"", "2", "4", "5", errorsOnly}).Draw(t, "status"),
		}
		ago := func(name string) time.Time {
			most := rapid.SampledFrom([]time.Duration{time.Hour, 5 * time.Hour, 3 * 24 * time.Hour, 32 * 24 * time.Hour}).Draw(t, name+" within")
			return now.Add(-time.Duration(rapid.Int64Range(0, int64(most/time.Minute)).Draw(t, name+" minutes ago")) * time.Minute).Truncate(time.Minute)
		}
		if rapid.Bool().Draw(t, "from") {
			f.from = ago("from")
		}
		if rapid.Bool().Draw(t, "to") {
			f.to = ago("to")
		}
		choice := rapid.SampledFrom(web.Choices()).Draw(t, "choice")
		q := &requestsQuery{workspaceID: acme, filter: f, since: now.Add(-p.Retention), now: now, start: newest(), limit: requestsPageSize}
		s, ok := spanOf(&f, choice, q.since, now)
		if !ok || !s.Kept(now) {
			return
		}
		drawn++
		counts, rows := s.bars(), s.bars()
		if since, err := p.addRollups(context.Background(), q, s, counts); err != nil || !since.IsZero() {
			t.Fatalf("from counts, since %v: %v", since, err)
		}
		if since, err := p.addCounted(context.Background(), q, s, rows); err != nil || !since.IsZero() {
			t.Fatalf("from rows, since %v: %v", since, err)
		}
		for i := range rows {
			for in := range web.RequestSeries() {
				if q.draws(in) && counts[i].Counts[in] != rows[i].Counts[in] {
					t.Fatalf("%s, from %v: %d of %s are counted, %d are there", s.title, rows[i].At, counts[i].Counts[in], web.RequestSeries()[in].Name, rows[i].Counts[in])
				}
			}
		}
	})
	if drawn < 30 {
		t.Errorf("%d charts were compared", drawn)
	}
}

// succeeded counts the requests that succeeded, the last series.
func succeeded(d *drawing) int64 { return d.Series[len(d.Series)-1].Total }

// TestManyRequestsAreCountedExactly: what comes from counts by interval has no bound. What
// needs rows says since when it counts, and a time of many requests is drawn by hour.
func TestManyRequestsAreCountedExactly(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 14, 37, 12, 0, time.UTC)
	p := pages(t, now, nil)
	w := rollup.NewWriter(p.Pool, testkit.Discard())
	const n = maxCounted + 30_000
	first := now.Add(-100 * time.Hour)
	every := 4 * time.Hour / n
	for i := range n {
		w.AddRequest(&rollup.Request{At: first.Add(time.Duration(i) * every), WorkspaceID: acme, KeyID: "key_1", Route: "/v1/me", Status: 200})
	}
	if err := w.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Must(p.Pool.Exec(t.Context(), `
		INSERT INTO request_log (slot, workspace_id, at, request_id, key_id, key_prefix, method, route, status, duration_us, bytes, row_count, record_id)
		SELECT (extract(epoch FROM at)::bigint / 86400) % 32, 'acme', at, 'req', 'key_1', 'p', 'GET', '/v1/me', 200, 1, 1, 1, gen_random_uuid()
		  FROM generate_series(0, $2::int - 1) i CROSS JOIN LATERAL (SELECT $1::timestamptz + i * $3::interval AS at) a`, first, n, every))(t)
	draw := func(f filter) *drawing {
		t.Helper()
		month := web.Choose("month", "")
		q := &requestsQuery{workspaceID: acme, filter: f, since: now.Add(-p.Retention), now: now, start: newest(), limit: requestsPageSize}
		s, ok := spanOf(&f, month, q.since, now)
		if !ok {
			t.Fatal("there is no time to draw")
		}
		return testkit.Must(p.draw(t.Context(), q, s))(t)
	}
	for _, f := range []filter{{}, {key: "key_1"}, {status: "2"}, {from: first.Add(-10 * time.Hour)}} {
		if d := draw(f); succeeded(d) != n || d.Counted || !d.Since.IsZero() {
			t.Errorf("%+v: %d requests, since %v", f, succeeded(d), d.Since)
		}
	}
	some := draw(filter{route: "/v1/me"})
	if total := succeeded(some); total != maxCounted || !some.Counted || !some.Since.After(first.Add(time.Hour)) || some.Since.After(first.Add(2*time.Hour)) {
		t.Errorf("by route: %d requests, since %v", total, some.Since)
	}
	// Of five hours, the minutes are not kept any more; of one, the rows suffice.
	whole := draw(filter{from: first.Add(-time.Minute), to: first.Add(4*time.Hour + time.Minute)})
	if succeeded(whole) != n || whole.Counted || !whole.Wider || !slices.ContainsFunc(whole.Rows, func(b web.Bar) bool { return b.Counts[web.Succeeded] == n/4 }) {
		t.Errorf("in a time of many requests: %d requests, %+v", succeeded(whole), whole.Rows)
	}
	hour := draw(filter{from: first, to: first.Add(time.Hour)})
	if succeeded(hour) < n/4 || succeeded(hour) > n/4+n/240 || !hour.Counted || len(hour.Rows) < 60 {
		t.Errorf("in an hour: %d requests in %d bars", succeeded(hour), len(hour.Rows))
	}
}

// TestRequestsFromBeforeTheCounts: after an upgrade from a version that did not count by
// interval, the page says since when it counts.
func TestRequestsFromBeforeTheCounts(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 14, 37, 12, 0, time.UTC)
	p := pages(t, now, []requestlog.Record{
		{At: now.Add(-10 * time.Hour), WorkspaceID: acme, KeyID: "key_1", Method: "GET", Status: 200},
		{At: now.Add(-time.Hour), WorkspaceID: acme, KeyID: "key_1", Method: "GET", Status: 200},
	})
	since := func(name string) time.Time {
		t.Helper()
		q := &requestsQuery{workspaceID: acme, since: now.Add(-p.Retention), now: now, start: newest(), limit: requestsPageSize}
		s, _ := spanOf(&q.filter, web.Choose(name, ""), q.since, now)
		return testkit.Must(p.draw(t.Context(), q, s))(t).Since
	}
	if at := since("day"); !at.IsZero() {
		t.Errorf("all requests are counted, and the page says since %v", at)
	}
	testkit.Must(p.Pool.Exec(t.Context(), `DELETE FROM request_rollup WHERE at < $1`, now.Add(-9*time.Hour)))(t)
	if at := since("day"); !at.Equal(now.Add(-time.Hour).Truncate(time.Hour)) {
		t.Errorf("the page says since %v", at)
	}
	if at := since("hour"); !at.IsZero() {
		t.Errorf("of the last hour all requests are counted, and the page says since %v", at)
	}
}
