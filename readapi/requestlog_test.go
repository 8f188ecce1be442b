package readapi_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

func (s *stand) requestStore() *requestlog.Store {
	s.t.Helper()
	return testkit.Must(requestlog.New(requestlog.Config{Pool: s.pool, Clock: s.clock.Now, Logger: testkit.Discard()}))(s.t)
}

// run lets the store write what is queued, and end.
func run(t *testing.T, store *requestlog.Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := store.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

func (s *stand) count(query string, args ...any) (n int64) {
	s.t.Helper()
	if err := s.pool.QueryRow(s.t.Context(), query, args...).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// TestRequestsAreKept: accepted ones one by one, refused ones as counts.
func TestRequestsAreKept(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.keyLimited("acme", 6, access.InvoicesRead)
	store := s.requestStore()
	for _, target := range []string{"/v1/invoices?client_id=cl_1", "/v1/invoices/in_1", "/v1/invoices/in_2", "/v1/nowhere", "/v1/clients", "/v1/me?x=1", "/v1/me", "/v1/me"} {
		s.get(target, key)
		record := s.requests.last()
		store.Record(&record)
	}
	for range 3 {
		s.get("/v1/me?key="+key, "")
		record := s.requests.last()
		store.Record(&record)
		s.get("/v1/me", key+"x")
		record = s.requests.last()
		store.Record(&record)
	}
	run(t, store)
	rows := testkit.Must(s.pool.Query(t.Context(), `SELECT route || ' ' || status || ' ' || row_count FROM request_log WHERE workspace_id = 'acme' AND method = 'GET' AND key_prefix = $1 ORDER BY route, status`, key[:16]))(t)
	var got []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		got = append(got, line)
	}
	want := []string{" 404 0", "/v1/clients 403 0", "/v1/invoices 200 1", "/v1/invoices/{id} 200 1", "/v1/invoices/{id} 404 0", "/v1/me 400 0"}
	if len(got) != len(want) {
		t.Fatalf("%q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%q, want %q", got[i], want[i])
		}
	}
	for query, want := range map[string]int64{
		`SELECT refused FROM request_refused WHERE workspace_id = 'acme' AND reason = 'rate_limit' AND key_id LIKE 'key_%'`: 2,
		`SELECT refused FROM request_refused WHERE workspace_id = '*' AND reason = 'key_in_url' AND key_id = ''`:            3,
		`SELECT refused FROM request_refused WHERE workspace_id = '*' AND reason = 'malformed'`:                             3,
		`SELECT count(*) FROM request_refused`: 3,
	} {
		if n := s.count(query); n != want {
			t.Errorf("%s: %d, want %d", query, n, want)
		}
	}
	run(t, store) // nothing is queued
	if n := s.count(`SELECT count(*) FROM request_log`); n != 6 || store.Dropped() != 0 {
		t.Errorf("%d rows, %d dropped", n, store.Dropped())
	}
}

// until waits for something that the database or another goroutine does.
func (s *stand) until(done func() bool) {
	s.t.Helper()
	testkit.Eventually(s.t, func() error {
		if !done() {
			return errors.New("the condition does not become true")
		}
		return nil
	})
}

// TestRunEnds: no goroutine outlives Run or the server.
func TestRunEnds(t *testing.T) {
	s := newStand(t)
	s.append(objects("acme")...)
	s.project("acme", 0)
	before := goleak.IgnoreCurrent() // the test's own server, pool and listener
	store := s.requestStore()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- store.Run(ctx) }()
	go func() { done <- s.limiter.Run(ctx) }()
	key := s.key("acme", allPermissions()...)
	tag := s.get("/v1/invoices", key).header.Get("Etag")
	for range 20 {
		s.get("/v1/invoices", key, "If-None-Match", tag)
	}
	cancel()
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	s.server.Client().CloseIdleConnections()
	s.server.Close()
	goleak.VerifyNone(t, before)
}
