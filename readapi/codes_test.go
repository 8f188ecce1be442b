package readapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// TestEveryProblemHasACode: the word for programs, after the status.
func TestEveryProblemHasACode(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *readapi.Config) {
		c.Wait(time.Minute, time.Millisecond, 0)
		c.Retention = 24 * time.Hour
		c.WholeLists.MostOfWorkspace = 1
	})
	now := s.clock.Now()
	s.append(event("old", "invoice.paid", now.Add(-20*time.Hour)), event("next", "invoice.paid", now.Add(-10*time.Hour)), event("new", "invoice.paid", now))
	s.project("acme", 0)
	key, limited := s.key("acme", allPermissions()...), s.keyLimited("acme", 1, allPermissions()...)
	cursor := *s.page("/v1/events?limit=1", key).NextCursor
	plain := *s.page("/v1/events?limit=1", s.key("acme", without(access.PayRead, access.MarginRead)...)).NextCursor
	type request struct {
		target, key string
		headers     []string
		status      int
		code        string
	}
	for _, c := range []request{
		{target: "/v1/invoices?limit=0", key: key, status: 400, code: "invalid_parameter"},
		{target: "/v1/invoices?cursor=", key: key, status: 400, code: "invalid_parameter"},
		{target: "/v1/invoices?cursor=x&cursor=x", key: key, status: 400, code: "invalid_parameter"},
		{target: "/v1/invoices?cursor=%zz", key: key, status: 400, code: "invalid_parameter"},
		{target: "/v1/invoices?cursor=x&limit=0", key: key, status: 400, code: "invalid_parameter"},
		{target: "/v1/events?cursor=" + plain + "&limit=1&x=1", key: key, status: 400, code: "invalid_parameter"},
		{target: "/v1/events?cursor=" + plain + "&limit=1", key: key, headers: []string{"Log-Position-At-Least", "x"}, status: 400, code: "invalid_parameter"},
		{target: "/v1/invoices?cursor=x", key: key, status: 400, code: "cursor_invalid"},
		{target: "/v1/events?limit=2&cursor=" + cursor, key: key, status: 400, code: "cursor_invalid"},
		{target: "/v1/events?limit=1&cursor=" + plain, key: key, status: 400, code: "cursor_permissions"},
		{target: "/v1/me?api_key=x", key: key, status: 400, code: "key_in_url"},
		{target: "/v1/me", key: "", status: 401, code: "unauthorized"},
		{target: "/v1/invoices", key: s.key("acme", access.EventsRead), status: 403, code: "permission_missing"},
		{target: "/v1/nowhere", key: key, status: 404, code: "not_found"},
		{target: "/v1/invoices/none", key: key, status: 404, code: "not_found"},
		{target: "/v1/events/tile/9/000", key: key, status: 404, code: "not_found"},
		{target: "/v1/me", key: key, headers: []string{"X-Padding", strings.Repeat("x", 20<<10)}, status: 431, code: "headers_too_large"},
		{target: "/v1/invoices", key: key, headers: []string{"Log-Position-At-Least", "99"}, status: 503, code: "position_not_reached"},
		{target: "/v1/me", key: limited, status: 200},
		{target: "/v1/me", key: limited, status: 429, code: "rate_limited"},
	} {
		checkCode(t, c.target+strings.Join(c.headers, " "), s.get(c.target, c.key, c.headers...), c.status, c.code)
	}
	checkCode(t, "POST", s.do(http.MethodPost, "/v1/me", key), 405, "method_not_allowed")
	refused := s.get("/v1/me", "x")
	for range 21 {
		refused = s.get("/v1/me", "x")
	}
	checkCode(t, "many refused keys", refused, 429, "address_slowed_down")
	s.clock.Advance(15 * time.Hour) // "next" is older than a day now
	checkCode(t, "events past their retention", s.get("/v1/events?limit=1&cursor="+cursor, key), 400, "events_missed")
	if err := s.api.HoldShare(t.Context(), time.Millisecond); err != nil {
		t.Fatal(err)
	}
	checkCode(t, "a share that is used up", s.get("/v1/events", key), 503, "busy")
}

// TestCodesOfALogThatWentBack and of a database that is away.
func TestCodesOfALogThatWentBack(t *testing.T) {
	t.Parallel()
	lost, restored := newStand(t), newStand(t)
	lost.append(event("e1", "invoice.paid", lost.clock.Now()), event("e2", "invoice.paid", lost.clock.Now()))
	lost.project("acme", 0)
	restored.append(event("e3", "invoice.paid", restored.clock.Now()))
	restored.project("acme", 0)
	cursor := *lost.page("/v1/events", lost.key("acme", allPermissions()...)).NextCursor
	checkCode(t, "a log that went back", restored.get("/v1/events?cursor="+cursor, restored.key("acme", allPermissions()...)), 400, "cursor_reset")
	away := newStand(t, func(c *readapi.Config) {
		by(c, testkit.Must(pgxpool.New(context.Background(), "postgres://x@127.0.0.1:1/x?connect_timeout=1"))(t))
		t.Cleanup(testkit.AsPool(c.Pool).Close)
	})
	away.workspace("acme")
	checkCode(t, "a database that is away", away.get("/v1/invoices", away.key("acme", allPermissions()...)), 503, "unavailable")
	faulty := newStand(t, func(c *readapi.Config) { c.Keys = broken{} })
	checkCode(t, "a fault", faulty.get("/v1/invoices", "x"), 500, "internal")
}

func checkCode(t *testing.T, what string, r reply, status int, code string) {
	t.Helper()
	if r.status != status {
		t.Errorf("%s: %d %s", what, r.status, r.body)
		return
	}
	if code == "" {
		return
	}
	var p struct {
		Code string `json:"code"`
	}
	if err := json.Unmarshal(r.body, &p); err != nil || p.Code != code {
		t.Errorf("%s: the code is %q, want %q, in %s", what, p.Code, code, r.body)
	}
	if !strings.Contains(string(r.body), `,"code":"`+code+`","detail":`) {
		t.Errorf("%s: the code is not after the status: %s", what, r.body)
	}
}
