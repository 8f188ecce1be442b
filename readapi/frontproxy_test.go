//go:build outside

// These tests run the conformance suite behind nginx and Caddy, with the configurations of
// packaging/proxy. They need what .ci/setup installs.

package readapi_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/frontproxy"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// leastBehind is how many requests a front proxy must have carried of the suite, which
// makes some 21,300.
const (
	leastBehind        = 20_000
	leastBehindOfSlice = 8_000
)

func TestConformanceBehindNginx(t *testing.T) { conformBehind(t, frontproxy.Nginx) }
func TestConformanceBehindCaddy(t *testing.T) { conformBehind(t, frontproxy.Caddy) }

// conformBehind runs the suite behind a proxy, by turns over HTTP/1.1 and HTTP/2. Every
// request reaches the program with the address as it was sent, and every answer comes as
// the program wrote it: its status, its headers, its bytes.
func conformBehind(t *testing.T, kind frontproxy.Kind) {
	t.Helper()
	f := &front{kind: kind, running: map[*httptest.Server]*behind{}}
	runSuite(t, f)
	least := testkit.Scale(leastBehindOfSlice, leastBehind)
	if n := f.carried.Load(); n < int64(least) {
		t.Errorf("%d requests went through %s, want %d at least", n, kind, least)
	} else {
		t.Logf("%d requests went through %s", n, kind)
	}
}

// front runs a proxy before each server of a stand.
type front struct {
	kind    frontproxy.Kind
	carried atomic.Int64

	mu      sync.Mutex
	running map[*httptest.Server]*behind // guarded by mu
}

// behind is a proxy before one server.
type behind struct {
	clients [2]*http.Client // of HTTP/1.1 and HTTP/2
	turn    atomic.Int64
}

// before returns the proxy before the stand's server. The tests tell the program addresses
// in X-Forwarded-For, as load balancers before the proxy do.
func (f *front) before(s *stand) *behind {
	s.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.running[s.server]
	if b == nil {
		p := frontproxy.Start(s.t, f.kind, frontproxy.Config{API: s.server.Listener.Addr().String(), Before: []string{"127.0.0.0/8", "10.0.0.0/8"}})
		b = &behind{clients: [2]*http.Client{p.Client(s.t, false, "127.0.0.1"), p.Client(s.t, true, "127.0.0.1")}}
		f.running[s.server] = b
	}
	return b
}

// carryFor sends a request through the proxy and compares the answer with what the program
// wrote.
func (f *front) carryFor(s *stand, method, path, key string, headers ...string) reply {
	s.t.Helper()
	b := f.before(s)
	version := b.turn.Add(1) % 2
	if path == "" {
		version = 0 // HTTP/2 has no such request
	}
	where := fmt.Sprintf("%s over HTTP/%d: %s %.200s", f.kind, version+1, method, path)
	through, err := askBehind(s, b.clients[version], method, path, key, headers...)
	if err != nil {
		s.t.Fatalf("%s: %v", where, err)
	}
	f.carried.Add(1)
	direct, ok := s.server.Config.Handler.(*witness).answer(through.header.Get("X-Request-Id"))
	if own := f.answersItself(method, path, headers); own.reason != "" {
		if ok || through.status != own.status || through.header.Get("Content-Type") != "application/problem+json" {
			s.t.Errorf("%s: %d %v; the proxy was expected to answer %d itself, because %s", where, through.status, through.header, own.status, own.reason)
		}
		return send(s.t, s.server, method, path, key, headers...)
	}
	if !ok {
		s.t.Fatalf("%s: the proxy answered itself: %d %v %.300s", where, through.status, through.header, through.body)
	}
	if f.kind == frontproxy.Caddy {
		path = strings.NewReplacer("{", "%7B", "}", "%7D").Replace(path) // as Go, which Caddy is written in, writes them
	}
	direct.compare(s.t, where, path, through)
	return through
}

// ownAnswer is an answer, a problem document, that a proxy gives in place of the program;
// the zero value: it gives none.
type ownAnswer struct {
	status int
	reason string
}

// answersItself are the requests of the suite that a proxy does not pass on.
func (f *front) answersItself(method, path string, headers []string) ownAnswer {
	if f.kind == frontproxy.Caddy {
		return ownAnswer{}
	}
	undecoded, _, _ := strings.Cut(path, "?")
	switch {
	case method == http.MethodTrace:
		return ownAnswer{http.StatusMethodNotAllowed, "nginx never passes on TRACE"}
	case strings.ToUpper(method) != method:
		return ownAnswer{http.StatusBadRequest, "nginx takes methods in capitals for requests alone"}
	case strings.Contains(undecoded, "%00"):
		return ownAnswer{http.StatusBadRequest, "nginx takes no paths with a zero byte"}
	case strings.Count(strings.Join(headers, "\n"), "Authorization") > 1:
		return ownAnswer{http.StatusBadRequest, "nginx takes one Authorization header"}
	}
	return ownAnswer{}
}

// askBehind is ask for a client of a front proxy. The path and query are sent as they are
// given.
func askBehind(s *stand, client *http.Client, method, path, key string, headers ...string) (reply, error) {
	r, err := written(s.t.Context(), frontproxy.APIHost, method, path, key, headers...)
	if err != nil {
		return reply{}, err
	}
	r.URL = &url.URL{Scheme: "https", Host: frontproxy.APIHost, Opaque: path}
	if path == "" || strings.HasPrefix(path, "//") {
		r.URL.Opaque = "//" + frontproxy.APIHost + path
	}
	response, err := client.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, body}, err
}

// witness remembers the answers of a handler, by their X-Request-Id.
type witness struct {
	next http.Handler

	mu      sync.Mutex
	answers map[string]*testimony // guarded by mu; the last one of an id
}

// testimony is a request as the program got it, and its answer.
type testimony struct {
	uri    string
	status int
	header http.Header
	body   bytes.Buffer
}

// witnessed is the handler of a stand's server.
func witnessed(h http.Handler) http.Handler {
	return &witness{next: h, answers: map[string]*testimony{}}
}

// ServeHTTP remembers what is written before the caller can have it.
func (w *witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.next.ServeHTTP(&witnessWriter{ResponseWriter: rw, of: w, seen: &testimony{uri: r.RequestURI}}, r)
}

func (w *witness) answer(id string) (*testimony, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen, ok := w.answers[id]
	return seen, ok
}

type witnessWriter struct {
	http.ResponseWriter

	of   *witness
	seen *testimony
}

func (w *witnessWriter) WriteHeader(status int) {
	w.seen.status, w.seen.header = status, http.Header{}
	for name, values := range w.Header() {
		w.seen.header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	w.of.mu.Lock()
	w.of.answers[w.seen.header.Get("X-Request-Id")] = w.seen
	w.of.mu.Unlock()
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets what is being streamed be flushed.
func (w *witnessWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *witnessWriter) Write(p []byte) (int, error) {
	w.seen.body.Write(p)
	return w.ResponseWriter.Write(p)
}

// compare checks that a request and its answer came through a proxy unchanged, except for
// headers that it may add, which are removed.
func (d *testimony) compare(t testing.TB, where, path string, through reply) {
	t.Helper()
	if path != "" && d.uri != path {
		t.Errorf("%s: the program got %s", where, d.uri)
	}
	if through.status != d.status || !bytes.Equal(through.body, d.body.Bytes()) {
		t.Errorf("%s: %d with %d bytes became %d with %d bytes", where, d.status, d.body.Len(), through.status, len(through.body))
	}
	if through.header.Get("Date") == "" || through.header.Get("Strict-Transport-Security") == "" {
		t.Errorf("%s: Date or Strict-Transport-Security is missing: %v", where, through.header)
	}
	for _, name := range []string{"Connection", "Date", "Server", "Strict-Transport-Security"} {
		delete(through.header, name)
	}
	if !maps.EqualFunc(d.header, through.header, slices.Equal) {
		t.Errorf("%s: the headers\n%v became\n%v", where, d.header, through.header)
	}
}

// TestAddressBehindAFrontProxy: refused keys count for the address of the proxy's peer,
// whatever that says of itself.
func TestAddressBehindAFrontProxy(t *testing.T) {
	for _, kind := range frontproxy.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			s := newStand(t, func(c *readapi.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} })
			s.workspace("acme")
			p := frontproxy.Start(t, kind, frontproxy.Config{API: s.server.Listener.Addr().String()})
			for peer, want := range map[string][]string{"127.0.0.2": {"19", "18", "17"}, "127.0.0.3": {"19", "18", "17"}} {
				client := p.Client(t, true, peer)
				for i, left := range want {
					r := testkit.Must(askBehind(s, client, http.MethodGet, "/v1/me", "nonsense", "X-Forwarded-For", fmt.Sprintf("203.0.113.%d, 127.0.0.1", i)))(t)
					if got := r.header.Get("RateLimit-Remaining"); got != left {
						t.Errorf("%s: %s left, want %s", peer, got, left)
					}
				}
			}
		})
	}
}
