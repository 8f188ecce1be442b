package readapi_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/klauspost/compress/zstd"

	"github.com/ledgerfeed/ledgerfeed/access"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// TestHeadAnswersAsGet compares the two on every path, with and without
// compression and faults.
func TestHeadAnswersAsGet(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(history(t, "acme", 3, s.clock.now(), 60*24*time.Hour, 300)...)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	targets := []string{"/v1/nowhere", "/v1/invoices?limit=0", "/v1/invoices/in_2"}
	for path := range endpoints() {
		targets = append(targets, path)
	}
	for _, target := range targets {
		for _, k := range []string{key, "nonsense"} {
			for _, accept := range []string{"identity", "gzip", "zstd"} {
				headers := []string{"Accept-Encoding", accept, "X-Request-Id", "same", "X-Forwarded-For", "203.0.113." + fmt.Sprint(len(target))}
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

// TestMethods: other methods get 405 on every path, OPTIONS an empty answer.
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
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "PROPFIND", "get", "X"} {
			if method == "CONNECT" {
				continue // net/http's client makes something else of it
			}
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

// TestConditionalRequests: an ETag names an answer as long as that is what would
// be answered, per key's sight, address and encoding.
func TestConditionalRequests(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(history(t, "acme", 3, s.clock.now(), 20*24*time.Hour, 300)...)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key, poor := s.key("acme", allPermissions()...), s.key("acme", without(access.PayRead, access.MarginRead)...)
	tags := map[string]string{}
	for path := range endpoints() {
		if path == "/v1/me" {
			continue
		}
		for _, k := range []string{key, poor} {
			r := s.get(path, k)
			tag := r.header.Get("Etag")
			if len(tag) < 10 || tag[0] != '"' {
				t.Errorf("%s: ETag %q", path, tag)
			}
			if other, twice := tags[tag]; twice {
				t.Errorf("%s and %s have one ETag", path, other)
			}
			tags[tag] = path + " " + k[8:16]
			for _, wanted := range []string{tag, "W/" + tag, `"a", ` + tag, `"a,b" ,W/"c",` + tag + `, "d"`, "*", `"x",*`} {
				n := s.get(path, k, "If-None-Match", wanted)
				checkHeaders(t, path, n)
				if n.status != 304 || len(n.body) > 0 || n.header.Get("Etag") != tag || n.header.Get("Vary") != "Accept-Encoding" {
					t.Errorf("%s with If-None-Match %s: %d %v", path, wanted, n.status, n.header)
				}
				if h := s.do(http.MethodHead, path, k, "If-None-Match", wanted); h.status != 304 {
					t.Errorf("HEAD %s with If-None-Match %s: %d", path, wanted, h.status)
				}
			}
			for _, wanted := range []string{"", `"x"`, tag[:len(tag)-1], strings.Trim(tag, `"`), `"` + tag[2:], "x" + tag, `W/`, `"`} {
				if n := s.get(path, k, "If-None-Match", wanted); n.status != 200 {
					t.Errorf("%s with If-None-Match %s: %d", path, wanted, n.status)
				}
			}
			zipped := s.get(path, k, "Accept-Encoding", "gzip, zstd;q=0.5")
			if zipped.header.Get("Content-Encoding") != "" && zipped.header.Get("Etag") == tag {
				t.Errorf("%s: one ETag for two encodings", path)
			}
			if n := s.get(path, k, "Accept-Encoding", "gzip", "If-None-Match", zipped.header.Get("Etag")); n.status != 304 {
				t.Errorf("%s gzipped with its ETag: %d", path, n.status)
			}
			if n := s.get(path, k, "If-None-Match", zipped.header.Get("Etag")); zipped.header.Get("Etag") != tag && n.status != 200 {
				t.Errorf("%s for who no longer accepts gzip: %d", path, n.status)
			}
		}
	}
	for tag, name := range tags {
		path, _, _ := strings.Cut(name, " ")
		for other := range endpoints() {
			if other != path && other != "/v1/me" {
				if n := s.get(other, key, "If-None-Match", tag); n.status != 200 {
					t.Errorf("%s with the ETag of %s: %d", other, path, n.status)
				}
				break
			}
		}
	}
	if n := s.get("/v1/clients/none", key, "If-None-Match", "*"); n.status != 404 {
		t.Errorf("If-None-Match * on nothing: %d", n.status)
	}
	// A change of anything visible, and events that pass their retention, make
	// new answers.
	before := s.get("/v1/clients", key).header.Get("Etag")
	s.append(`{"workspace_id":"acme","type":"client.recorded","data":{"client_id":"cl_1","name":"Client"}}`)
	if n := s.get("/v1/clients", key, "If-None-Match", before); n.status != 304 {
		t.Errorf("an entry that is not projected yet: %d", n.status)
	}
	s.project("acme", 0)
	if n := s.get("/v1/clients", key, "If-None-Match", before); n.status != 200 {
		t.Errorf("after a change: %d", n.status)
	}
	events := s.get("/v1/events?limit=1", key)
	s.clock.advance(26 * 24 * time.Hour)
	if n := s.get("/v1/events?limit=1", key, "If-None-Match", events.header.Get("Etag")); n.status != 200 || bytes.Equal(n.body, events.body) {
		t.Errorf("after events passed their retention: %d", n.status)
	}
	if n := s.get("/v1/events/ev_1", key, "If-None-Match", s.get("/v1/events/ev_1", key).header.Get("Etag")); n.status != 304 {
		t.Errorf("an event with its ETag: %d", n.status)
	}
}

// TestCompression: above 1 KiB, where the caller accepts it, and it opens to the
// same bytes.
func TestCompression(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(history(t, "acme", 3, s.clock.now(), 20*24*time.Hour, 200)...)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	plain := s.get("/v1/time-entries", key)
	for accept, want := range map[string]string{
		"gzip": "gzip", "zstd": "zstd", "gzip, zstd": "zstd", "gzip;q=1.0, zstd;q=0.9": "gzip", "deflate, br": "", "": "",
		"*": "zstd", "*;q=0": "", "gzip;q=0": "", "gzip;q=0, *": "zstd", "GZIP": "gzip", "x-gzip": "gzip", "identity;q=0.1, gzip;q=0.5": "gzip",
		"gzip;q=2": "", "gzip;q=x": "", "gzip; q=0.5 ; x=y": "gzip", ",,gzip": "gzip",
	} {
		r := s.get("/v1/time-entries", key, "Accept-Encoding", accept)
		if got := r.header.Get("Content-Encoding"); got != want || r.header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q is answered with %q", accept, got)
			continue
		}
		if !bytes.Equal(unpack(t, r), plain.body) {
			t.Errorf("%q opens to other bytes", accept)
		}
		if small := s.get("/v1/clients/cl_1", key, "Accept-Encoding", accept); small.header.Get("Content-Encoding") != "" {
			t.Errorf("%d bytes are compressed", len(small.body))
		}
	}
	long := s.get("/v1/time-entries?"+strings.Repeat("x", 40)+"&"+strings.Repeat("y&z&w&v&u&", 3)+"limit=0&status=1", key, "Accept-Encoding", "gzip")
	if long.status != 400 || long.header.Get("Content-Encoding") != "gzip" || !bytes.Contains(unpack(t, long), []byte(`"request_id"`)) {
		t.Errorf("a long problem document: %d, %s", long.status, long.header.Get("Content-Encoding"))
	}
}

func unpack(t testing.TB, r reply) []byte {
	t.Helper()
	var reader io.Reader = bytes.NewReader(r.body)
	switch r.header.Get("Content-Encoding") {
	case "gzip":
		z, err := gzip.NewReader(reader)
		if err != nil {
			t.Fatal(err)
		}
		reader = z
	case "zstd":
		z, err := zstd.NewReader(reader)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		reader = z
	}
	body, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// TestRequestID: a good one is taken over, anything else replaced.
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

// TestRefusalsLookAlike: missing, malformed, unknown, revoked and expired keys
// are one to the caller.
func TestRefusalsLookAlike(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	record, revoked, err := s.store.Create(t.Context(), access.NewKey{WorkspaceID: "acme", Name: "x", Permissions: access.PermissionsOf(access.PayRead)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Revoke(t.Context(), "acme", record.ID); err != nil {
		t.Fatal(err)
	}
	_, expired, err := s.store.Create(t.Context(), access.NewKey{
		WorkspaceID: "acme", Name: "x", Permissions: access.PermissionsOf(access.PayRead), ExpiresAt: s.clock.now().Add(time.Second),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.clock.advance(2 * time.Second)
	live := s.key("acme", access.PayRead)
	unknown := must(s.format.Generate(bytes.NewReader(bytes.Repeat([]byte{1, 2, 3}, 100))))(t).Reveal()
	var first string
	for i, headers := range [][]string{
		{}, {"Authorization", "Bearer x"}, {"Authorization", "Bearer"}, {"Authorization", "Bearer "}, {"Authorization", "Basic " + live},
		{"Authorization", live}, {"Authorization", "Bearer " + unknown}, {"Authorization", "Bearer " + revoked.Reveal()},
		{"Authorization", "Bearer " + expired.Reveal()}, {"Authorization", "Bearer " + live + ",x"}, {"Authorization", "Bearer " + live, "Authorization", "Bearer " + live},
	} {
		r := s.get("/v1/me", "", append(headers, "X-Request-Id", "same", "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i))...)
		r.header.Del("Date")
		text := fmt.Sprint(r.status, r.header, string(r.body))
		if first == "" {
			first = text
		}
		if r.status != 401 || text != first {
			t.Errorf("%q is answered with\n%s\nthe first one with\n%s", headers, text, first)
		}
	}
	for _, scheme := range []string{"Bearer ", "bearer ", "BEARER  "} {
		if r := s.get("/v1/me", "", "Authorization", scheme+live); r.status != 200 {
			t.Errorf("%q: %d", scheme, r.status)
		}
	}
}

// TestRateLimits: the count in the headers, the refusal, the next minute.
func TestRateLimits(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	key, other := s.keyLimited("acme", 3, access.PayRead), s.keyLimited("acme", 5, access.PayRead)
	s.clock.set(s.clock.now().Truncate(time.Minute).Add(17*time.Second + 300*time.Millisecond))
	for i, path := range []string{"/v1/me", "/v1/nowhere", "/v1/invoices"} {
		r := s.get(path, key)
		if got := strings.Join([]string{r.header.Get("Ratelimit-Limit"), r.header.Get("Ratelimit-Remaining"), r.header.Get("Ratelimit-Reset")}, " "); got != fmt.Sprintf("3 %d 43", 2-i) {
			t.Errorf("%s: %s", path, got)
		}
		if r.header.Get("Ratelimit-Policy") != `"key";q=3;w=60` || r.header.Get("Ratelimit") != fmt.Sprintf(`"key";r=%d;t=43`, 2-i) {
			t.Errorf("%s: %s, %s", path, r.header.Get("Ratelimit-Policy"), r.header.Get("Ratelimit"))
		}
	}
	for range 3 {
		r := s.get("/v1/me", key)
		checkHeaders(t, "too many", r)
		if r.status != 429 || r.header.Get("Retry-After") != "43" || r.header.Get("Ratelimit-Remaining") != "0" {
			t.Errorf("above the limit: %d %v", r.status, r.header)
		}
	}
	if r := s.get("/v1/me", other); r.status != 200 || r.header.Get("Ratelimit-Remaining") != "4" {
		t.Errorf("another key: %d, %s left", r.status, r.header.Get("Ratelimit-Remaining"))
	}
	s.clock.set(s.clock.now().Truncate(time.Minute).Add(time.Minute))
	if r := s.get("/v1/me", key); r.status != 200 || r.header.Get("Ratelimit-Remaining") != "2" || r.header.Get("Ratelimit-Reset") != "60" {
		t.Errorf("in the next minute: %d %v", r.status, r.header)
	}
	for i := range access.RefusedKeysPerMinute + 3 {
		r := s.get("/v1/me", "x")
		want, left := 401, access.RefusedKeysPerMinute-1-i
		if left < 0 {
			want, left = 429, 0
		}
		if r.status != want || r.header.Get("Ratelimit-Remaining") != fmt.Sprint(left) || r.header.Get("Ratelimit-Limit") != "20" {
			t.Errorf("refused key %d: %d, %s left", i+1, r.status, r.header.Get("Ratelimit-Remaining"))
		}
	}
	if r := s.get("/v1/me", ""); r.status != 429 {
		t.Errorf("no key from a slowed address: %d", r.status)
	}
	if r := s.get("/v1/me", key); r.status != 200 {
		t.Errorf("a valid key from a slowed address: %d", r.status)
	}
	s.clock.advance(time.Minute)
	if r := s.get("/v1/me", "x"); r.status != 401 {
		t.Errorf("a refused key a minute later: %d", r.status)
	}
}

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
		"an expectation":      {"GET /v1/me HTTP/1.1\r\nHost: a\r\nExpect: x\r\nContent-Length: 1\r\n\r\n", 400},
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
		if err != nil {
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
	s.server.Config.ReadHeaderTimeout = 50 * time.Millisecond
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
