package readapi_test

import (
	"encoding/json"
	"log/slog"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// TestOneLineForARequest: each request is one line with the same attributes, which say
// what was answered.
func TestOneLineForARequest(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", access.InvoicesRead)
	wrong := func(names ...any) map[string]any { return map[string]any{"wrong_parameters": names} }
	for i, c := range []struct {
		method, target, key, route, refused, level string
		rows                                       int
		more                                       map[string]any
	}{
		{"GET", "/v1/invoices?limit=3", key, "/v1/invoices", "", "INFO", 1, nil},
		{"HEAD", "/v1/invoices/in_1", key, "/v1/invoices/{id}", "", "INFO", 1, nil},
		{"OPTIONS", "/v1/invoices", key, "/v1/invoices", "", "INFO", 0, nil},
		{"GET", "/v1/clients/cl_1", key, "/v1/clients/{id}", "", "INFO", 0, map[string]any{"lacks_permission": "clients:read"}},
		{"GET", "/v1/me?x=1", key, "/v1/me", "", "INFO", 0, wrong("(unknown)")},
		{"GET", "/v1/invoices?limit=Secret&Miller=1&Smith=2&status=a&limit=9&cursor=Secret", key, "/v1/invoices", "", "INFO", 0, wrong("limit", "(unknown)", "status", "cursor")},
		{"GET", "/v1/nowhere", key, "", "", "INFO", 0, nil},
		{"GET", "/v1/me", "nonsense", "", "malformed", "INFO", 0, nil},
		{"POST", "/v1/me", key, "", "method", "INFO", 0, nil},
		{"GET", "/v1/me?token=1", key, "", "key_in_url", "INFO", 0, nil},
	} {
		r := s.do(c.method, c.target, c.key)
		lines := strings.Split(strings.TrimSpace(s.output.String()), "\n")
		if len(lines) != i+1 {
			t.Fatalf("%d lines after %d requests", len(lines), i+1)
		}
		var line map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &line); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"msg": "request", "level": c.level, "method": c.method, "route": c.route, "status": float64(r.status), "bytes": float64(len(r.body)),
			"rows": float64(c.rows), "request_id": r.header.Get("X-Request-Id"), "duration": 0.0, "key": "", "workspace": "",
		}
		if c.refused != "" {
			want["refused"] = c.refused
		} else {
			want["key"], want["workspace"] = key[:16], "acme"
		}
		maps.Copy(want, c.more)
		delete(line, "time")
		if !reflect.DeepEqual(line, want) {
			t.Errorf("%s %s:\n%v, want\n%v", c.method, c.target, line, want)
		}
	}
}

// TestALoggerForErrors: a logger for errors alone gets no other lines; the request log
// gets every request.
func TestALoggerForErrors(t *testing.T) {
	t.Parallel()
	silent := &testkit.Buffer{}
	s := newStand(t, func(c *readapi.Config) {
		c.Logger = slog.New(slog.NewTextHandler(silent, &slog.HandlerOptions{Level: slog.LevelError}))
	})
	s.workspace("acme")
	s.get("/v1/me", s.key("acme", access.PayRead))
	if silent.String() != "" || s.requests.last().Status != 200 {
		t.Errorf("the logger got %q, the request log a %d", silent, s.requests.last().Status)
	}
}
