package readapi_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// statements counts the statements that a pool sends, and the round trips that they take.
type statements struct {
	n, trips, batches, failed atomic.Int64

	each atomic.Pointer[func(sql string)]
}

// watch has each called before every statement from now on.
func (s *statements) watch(each func(sql string)) { s.each.Store(&each) }

func (s *statements) seen(sql string) {
	if each := s.each.Load(); each != nil {
		(*each)(sql)
	}
}

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.seen(data.SQL)
	s.n.Add(1)
	s.trips.Add(1)
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, q := range data.Batch.QueuedQueries {
		s.seen(q.SQL)
	}
	s.batches.Add(1)
	s.trips.Add(1)
	return ctx
}

func (s *statements) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) { s.n.Add(1) }

func (s *statements) TraceBatchEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchEndData) {
	if data.Err != nil {
		s.failed.Add(1)
	}
}

// counted lets an API read through a pool whose statements are counted.
func (s *statements) counted(t *testing.T, c *readapi.Config) {
	t.Helper()
	cfg := testkit.AsPool(c.Pool).Config()
	cfg.ConnConfig.Tracer = s
	by(c, testkit.Must(pgxpool.NewWithConfig(t.Context(), cfg))(t))
	t.Cleanup(testkit.AsPool(c.Pool).Close)
}

// TestStatementsOfARequest: the checks, limits included, cost no statement, and every
// answer costs one at most, except those of the feed, whose page has four in one round trip.
func TestStatementsOfARequest(t *testing.T) {
	t.Parallel()
	var asked statements
	s := newStand(t, func(c *readapi.Config) { asked.counted(t, c) })
	s.append(history(t, "acme", 3, s.clock.Now(), 20*24*time.Hour, 300)...)
	s.append(objects("acme")...)
	s.project("acme", 0)
	s.keepKeys(t)
	key, poor, exhausted := s.key("acme", allPermissions()...), s.key("acme", access.PayRead), s.keyLimited("acme", 1, access.PayRead)
	s.get("/v1/me", exhausted)
	costs := func(what string, most int64, method, path, key string, headers ...string) {
		t.Helper()
		before, trips := asked.n.Load(), asked.trips.Load()
		s.do(method, path, key, headers...)
		n, trips := asked.n.Load()-before, asked.trips.Load()-trips
		together := trips
		if what == "GET" && path == "/v1/events" || what == "the page after one" {
			together += 3
		}
		if strings.HasPrefix(path, "/v1/events/") && trips > 0 {
			together++ // it is looked up along an index, whatever the connection's settings
		}
		if trips > most || n > together {
			t.Errorf("%s of %s costs %d round trips, not %d, with %d statements", what, path, trips, most, n)
		}
	}
	for path, permission := range endpoints() {
		costs("OPTIONS", 0, http.MethodOptions, path, key)
		costs("POST", 0, http.MethodPost, path, key)
		costs("a malformed key", 0, http.MethodGet, path, "nonsense")
		costs("an exhausted key", 0, http.MethodGet, path, exhausted)
		costs("a wrong parameter", 0, http.MethodGet, path+"?x=1", key)
		if permission == "" {
			costs("GET", 0, http.MethodGet, path, key)
			continue
		}
		costs("no permission", 0, http.MethodGet, path, poor)
		most := int64(1)
		if path == "/v1/events" {
			most = 3 // where the feed begins, the page, and where it is in the tree
		}
		costs("GET", most, http.MethodGet, path, key)
		if path == "/v1/events" { // the page before says where the next one is in the tree
			next := "?limit=20&cursor=" + *s.page(path+"?limit=20", key).NextCursor
			costs("the page after one", 1, http.MethodGet, path+next, key)
		}
		tag, unchanged := s.get(path, key).header.Get("Etag"), int64(1)
		if path == "/v1/events" {
			unchanged = 2 // the version, and where the feed begins
		}
		costs("304", unchanged, http.MethodGet, path, key, "If-None-Match", tag)
		costs("a cached answer", unchanged, http.MethodGet, path, key)
	}
	if asked.n.Load() < int64(len(endpoints())) {
		t.Errorf("only %d statements were counted: the counter sees none of the API's", asked.n.Load())
	}
}

// TestUnchangedNeedsNoReadTable takes the read tables away: a caller that has an answer
// still gets 304, and cached answers are still sent.
func TestUnchangedNeedsNoReadTable(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(history(t, "acme", 3, s.clock.Now(), 20*24*time.Hour, 100)...)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	tags := map[string]string{}
	for path := range endpoints() {
		for range 3 { // cached the second time
			tags[path] = s.get(path, key).header.Get("Etag")
		}
	}
	for _, table := range []string{"invoice", "charge", "time_entry", "payment", "client", "contractor", "client_credit", "credit_move"} {
		testkit.AsOwner(t, s.pool, `ALTER TABLE `+table+` RENAME TO away_`+table)
	}
	for path, tag := range tags {
		if path == "/v1/events/ev_1" {
			continue // shows an entry of the log, which is no read table
		}
		if r := s.get(path, key, "If-None-Match", tag); r.status != 304 {
			t.Errorf("%s with its ETag: %d", path, r.status)
		}
	}
	for path := range lists() {
		if r := s.get(path, key); r.status != 200 {
			t.Errorf("%s, which is cached: %d", path, r.status)
		}
		if r := s.get(path+"?limit=7", key); r.status != 500 && path != "/v1/events" {
			t.Errorf("%s, which was not: %d", path, r.status)
		}
	}
}
