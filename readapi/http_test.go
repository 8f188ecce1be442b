package readapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// TestHeadAnswersAsGet compares the two on every path, with and without
// compression and faults.
func TestHeadAnswersAsGet(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(history(t, "acme", 3, s.clock.Now(), 60*24*time.Hour, 300)...)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	targets := []string{"/v1/nowhere", "/v1/invoices?limit=0", "/v1/invoices/in_2"}
	for path := range endpoints() {
		targets = append(targets, path)
	}
	for n, target := range targets {
		for _, k := range []string{key, "nonsense"} {
			for _, accept := range []string{"identity", "gzip", "zstd"} {
				headers := []string{"Accept-Encoding", accept, "X-Request-Id", "same", "X-Forwarded-For", "203.0.113." + fmt.Sprint(n)}
				get, head := s.do(http.MethodGet, target, k, headers...), s.do(http.MethodHead, target, k, headers...)
				for _, h := range []http.Header{get.header, head.header} {
					for _, changing := range []string{"Ratelimit-Remaining", "Ratelimit", "Date", "Retry-After"} {
						h.Del(changing)
					}
				}
				if get.status != head.status || fmt.Sprint(get.header) != fmt.Sprint(head.header) || len(head.body) > 0 {
					t.Errorf("%s: GET %d %v\nHEAD %d %v, %d bytes", target, get.status, get.header, head.status, head.header, len(head.body))
				}
				if get.header.Get("Content-Length") != fmt.Sprint(len(get.body)) {
					t.Errorf("%s: Content-Length %s of %d bytes", target, get.header.Get("Content-Length"), len(get.body))
				}
			}
		}
	}
}

// TestMethods: other methods get 405 on every path, OPTIONS an empty answer. CONNECT,
// which the client does not send as it is, is in TestWhatTheServerRefusesItself.
func TestMethods(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	key := s.key("acme", access.PayRead)
	paths := []string{"/v1/nowhere", "/", "/v1/invoices/"}
	for path := range endpoints() {
		paths = append(paths, path)
		r := s.do(http.MethodOptions, path+"?nonsense=1", key)
		checkHeaders(t, "OPTIONS "+path, r)
		if r.status != 204 || len(r.body) > 0 {
			t.Errorf("OPTIONS %s: %d %s", path, r.status, r.body)
		}
	}
	for _, path := range paths {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "get", "X"} {
			r := s.do(method, path, key)
			checkHeaders(t, method+" "+path, r)
			if r.status != 405 || r.header.Get("Ratelimit-Limit") != "20" {
				t.Errorf("%s %s: %d, limit %s", method, path, r.status, r.header.Get("Ratelimit-Limit"))
			}
		}
	}
	if strings.Contains(s.output.String(), "PROPFIND") {
		t.Error("the log holds a made-up method")
	}
}

// TestRequestID: a valid id is taken over, anything else replaced.
func TestRequestID(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	key := s.key("acme", access.PayRead)
	for _, id := range []string{"a", "A-z_0.9", strings.Repeat("x", 64)} {
		if got := s.get("/v1/me", key, "X-Request-Id", id).header.Get("X-Request-Id"); got != id || s.requests.last().RequestID != id {
			t.Errorf("%q became %q", id, got)
		}
	}
	for _, id := range []string{"", "a b", "a/b", "ü", strings.Repeat("x", 65), "<script>"} {
		got := s.get("/v1/me", key, "X-Request-Id", id).header.Get("X-Request-Id")
		if got == id || len(got) < 20 || len(got) > 64 {
			t.Errorf("%q became %q", id, got)
		}
	}
	if got := s.get("/v1/me", key, "X-Request-Id", "a", "X-Request-Id", "b").header.Get("X-Request-Id"); got == "a" || got == "b" {
		t.Errorf("two ids became %q", got)
	}
}

// TestMe shows the key.
func TestMe(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	key := s.keyLimited("acme", 300, access.PayRead, access.InvoicesRead)
	r := s.get("/v1/me", key)
	want := fmt.Sprintf(`{"company":{"id":"acme","name":"Agency acme"},"key":{"name":"Reporting","prefix":%q},"scopes":["invoices:read","pay:read"],"rate_limit_per_minute":300}`, key[:16])
	if string(r.body) != want {
		t.Errorf("%s\nwant %s", r.body, want)
	}
}
