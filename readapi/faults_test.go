package readapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/access"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// broken is a directory that cannot tell, or panics.
type broken struct{ err error }

func (b broken) Authenticate(context.Context, string) (*access.Key, error) {
	if b.err == nil {
		panic("a bug with secrets in its text")
	}
	return nil, b.err
}

// TestFaultsOfTheServer: what goes wrong inside is a documented answer, and its
// text stays inside.
func TestFaultsOfTheServer(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]struct {
		change func(*readapi.Config)
		want   int
	}{
		"a panic":            {func(c *readapi.Config) { c.Keys = broken{} }, 500},
		"an unknown error":   {func(c *readapi.Config) { c.Keys = broken{errors.New("secrets in its text")} }, 500},
		"keys unavailable":   {func(c *readapi.Config) { c.Keys = broken{fmt.Errorf("%w: secrets", access.ErrUnavailable)} }, 503},
		"a time that is out": {func(c *readapi.Config) { c.Timeout = time.Nanosecond }, 503},
		"the database away": {func(c *readapi.Config) {
			pool, err := pgxpool.New(t.Context(), "postgres://x@127.0.0.1:1/x?connect_timeout=1")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			c.Pool = pool
		}, 503},
		"a closed pool": {func(c *readapi.Config) {
			pool, err := pgxpool.New(t.Context(), "postgres://x@127.0.0.1:1/x")
			if err != nil {
				t.Fatal(err)
			}
			pool.Close()
			c.Pool = pool
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

// TestLargeHeaders: too large ones are refused in words; the server itself
// gives up only later.
func TestLargeHeaders(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	key := s.key("acme", allPermissions()...)
	for _, target := range []string{"/v1/me", "/v1/me?x=" + strings.Repeat("x", 20_000), "/" + strings.Repeat("x", 20_000)} {
		var headers []string
		if target == "/v1/me" {
			headers = []string{"X-Large", strings.Repeat("x", 20_000)}
		}
		r := s.get(target, key, headers...)
		checkHeaders(t, "large headers", r)
		if r.status != 431 || !strings.Contains(string(r.body), `"status":431`) {
			t.Errorf("%.30s: %d %s", target, r.status, r.body)
		}
	}
	if r := s.get("/v1/me", key, "X-Large", strings.Repeat("x", 10_000)); r.status != 200 {
		t.Errorf("10,000 bytes: %d", r.status)
	}
}

// TestWhatTheServerRefusesItself: what no handler sees is answered alike.
func TestWhatTheServerRefusesItself(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	key := s.key("acme", allPermissions()...)
	for name, c := range map[string]struct {
		request string
		want    int
	}{
		"OPTIONS *":           {"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer " + key + "\r\n\r\n", 404},
		"no request at all":   {"hello\r\n\r\n", 400},
		"TLS":                 {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400},
		"no host":             {"GET /v1/me HTTP/1.1\r\n\r\n", 400},
		"two hosts":           {"GET /v1/me HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
		"a malformed header":  {"GET /v1/me HTTP/1.1\r\nHost: a\r\nx y: b\r\n\r\n", 400},
		"an undecodable path": {"GET /v1/%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"an unknown version":  {"GET /v1/me HTTP/3.9\r\nHost: a\r\n\r\n", 400},
		"an unknown coding":   {"GET /v1/me HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n\r\n", 400},
		"an expectation":      {"GET /v1/me HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n", 400},
		"headers without end": {"GET /v1/me HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 5*readapi.MaxHeaderBytes), 431},
		"a line without end":  {"GET /" + strings.Repeat("x", 5*readapi.MaxHeaderBytes), 431},
		"a key in a bad path": {"GET /v1/%zz" + key + " HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	} {
		response, err := http.ReadResponse(bufio.NewReader(strings.NewReader(s.raw(c.request))), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		body, err := io.ReadAll(response.Body)
		if err = errors.Join(err, response.Body.Close()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		checkHeaders(t, name, reply{response.StatusCode, response.Header, body})
		var p struct {
			Status    int
			RequestID string `json:"request_id"`
		}
		if err := json.Unmarshal(body, &p); err != nil || response.StatusCode != c.want || p.Status != c.want || p.RequestID != response.Header.Get("X-Request-Id") {
			t.Errorf("%s: %d %s", name, response.StatusCode, body)
		}
		if bytes.Contains(body, []byte(key)) || strings.Contains(s.output.String(), key) {
			t.Errorf("%s repeats the key", name)
		}
	}
}

// TestSlowCallers: who does not finish a request is let go.
func TestSlowCallers(t *testing.T) {
	t.Parallel()
	server := readapi.NewServer(nil, slog.New(slog.DiscardHandler))
	for name, d := range map[string]time.Duration{
		"headers": server.ReadHeaderTimeout, "a request": server.ReadTimeout, "an answer": server.WriteTimeout, "the next request": server.IdleTimeout,
	} {
		if d <= 0 || d > 2*time.Minute {
			t.Errorf("a caller may take %v for %s", d, name)
		}
	}
	s := newStand(t)
	listener := must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	server.Handler, server.ReadHeaderTimeout = s.api, 50*time.Millisecond
	s.server = &httptest.Server{Listener: s.api.Guard(listener), Config: server}
	s.server.Start()
	t.Cleanup(s.server.Close)
	if answer := s.raw("GET /v1/me HTTP/1.1\r\nHost: x\r\nX-Slow: "); answer != "" && !strings.Contains(answer, "application/problem+json") {
		t.Errorf("a request that does not end: %s", answer)
	}
}

// raw sends bytes and returns what comes back until the connection ends.
func (s *stand) raw(request string) string {
	s.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(s.t.Context(), "tcp", s.server.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		s.t.Fatal(err)
	}
	answer, _ := io.ReadAll(conn)
	return string(answer)
}
