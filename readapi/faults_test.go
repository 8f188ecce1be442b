package readapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// broken is a directory that returns an error, or panics.
type broken struct{ err error }

func (b broken) Authenticate(context.Context, string) (*access.Key, error) {
	if b.err == nil {
		panic("a bug with secrets in its text")
	}
	return nil, b.err
}

func (b broken) AuthenticateSlowly(ctx context.Context, text string) (*access.Key, error) {
	return b.Authenticate(ctx, text)
}

// jammed is a limiter that panics when it counts a key.
type jammed struct{ readapi.Limiter }

func (jammed) Take(*access.Key) access.Allowance { panic("another bug with secrets in its text") }

// TestFaultsOfTheServer: inner errors are answered as documented, and callers do not see
// their text.
func TestFaultsOfTheServer(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]struct {
		change func(*readapi.Config)
		want   int
	}{
		"a panic":            {func(c *readapi.Config) { c.Keys = broken{} }, 500},
		"a panic later":      {func(c *readapi.Config) { c.Limiter = jammed{c.Limiter} }, 500},
		"an unknown error":   {func(c *readapi.Config) { c.Keys = broken{errors.New("secrets in its text")} }, 500},
		"keys unavailable":   {func(c *readapi.Config) { c.Keys = broken{fmt.Errorf("%w: secrets", access.ErrUnavailable)} }, 503},
		"a time that is out": {func(c *readapi.Config) { c.Timeout = time.Nanosecond }, 503},
		"the database away": {func(c *readapi.Config) {
			pool, err := pgxpool.New(t.Context(), "postgres://x@127.0.0.1:1/x?connect_timeout=1")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			by(c, pool)
		}, 503},
		"a closed pool": {func(c *readapi.Config) {
			pool, err := pg.Open(t.Context(), "postgres://x@127.0.0.1:1/x", pg.Options{Later: true})
			if err != nil {
				t.Fatal(err)
			}
			pool.Close()
			by(c, pool)
		}, 503},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, f.change)
			s.append(objects("acme")...)
			s.project("acme", 0)
			key := s.key("acme", allPermissions()...)
			r := s.get("/v1/invoices", key, "X-Request-Id", "the-request")
			checkHeaders(t, name, r)
			if r.status != f.want || strings.Contains(string(r.body), "secrets") || strings.Contains(string(r.body), "127.0.0.1") {
				t.Errorf("%d %s", r.status, r.body)
			}
			var p map[string]any
			if err := json.Unmarshal(r.body, &p); err != nil || p["request_id"] != "the-request" {
				t.Errorf("%v in %s", err, r.body)
			}
			if !strings.Contains(s.output.String(), `"request_id":"the-request"`) {
				t.Errorf("the log does not name the request: %s", s.output)
			}
			if h := s.do(http.MethodHead, "/v1/invoices", key); h.status != f.want {
				t.Errorf("HEAD: %d", h.status)
			}
			if p := s.do(http.MethodPost, "/v1/invoices", key); p.status != 405 {
				t.Errorf("POST: %d", p.status)
			}
		})
	}
}

// TestDatabaseAway: requests that need the database are answered with 503, all others as
// usual.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *readapi.Config) {
		by(c, testkit.Must(pgxpool.New(t.Context(), "postgres://x@127.0.0.1:1/x?connect_timeout=1"))(t))
		t.Cleanup(testkit.AsPool(c.Pool).Close)
	})
	s.workspace("acme")
	key := s.key("acme", allPermissions()...)
	for path, permission := range endpoints() {
		want := 503
		if permission == "" { // shows only what is in memory
			want = 200
		}
		for _, match := range []string{"", `"x"`} {
			r := s.get(path, key, "If-None-Match", match)
			checkHeaders(t, path, r)
			if r.status != want || strings.Contains(string(r.body), "127.0.0.1") {
				t.Errorf("%s: %d %s", path, r.status, r.body)
			}
		}
		if r := s.do(http.MethodOptions, path, key); r.status != 204 {
			t.Errorf("OPTIONS %s: %d", path, r.status)
		}
		if r := s.get(path+"?x=1", key); r.status != 400 {
			t.Errorf("%s with a wrong parameter: %d", path, r.status)
		}
	}
}
