//go:build outside

package frontproxy_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/frontproxy"
)

// eachProxy runs a test with every proxy, over HTTP/1.1 and over HTTP/2.
func eachProxy(t *testing.T, test func(t *testing.T, kind frontproxy.Kind, http2 bool)) {
	t.Helper()
	t.Parallel()
	for _, kind := range frontproxy.Kinds() {
		for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
			t.Run(string(kind)+" "+version, func(t *testing.T) {
				t.Parallel()
				test(t, kind, version == "HTTP/2.0")
			})
		}
	}
}

var (
	errStillSent = errors.New("requests are sent to an instance that is not ready")
	errNotSent   = errors.New("no requests are sent to an instance that is ready again")
	errNotLogged = errors.New("the last request is not in the log")
)

// answer is an answer that was read to its end.
type answer struct {
	*http.Response
	body string
}

// ask makes a request; headers are name and value by turns.
func ask(t *testing.T, client *http.Client, method, url string, body io.Reader, headers ...string) answer {
	t.Helper()
	r := testkit.Must(http.NewRequestWithContext(t.Context(), method, url, body))(t)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer response.Body.Close()
	return answer{response, string(testkit.Must(io.ReadAll(response.Body))(t))}
}

// upstream is a server in place of the program's; it returns its address.
func upstream(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// TestAway: while the program is away, the API's callers get a problem document and
// people a sentence, both with the time to wait. No log holds what only the caller may
// know.
func TestAway(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind frontproxy.Kind, http2 bool) {
		p := frontproxy.Start(t, kind, frontproxy.Config{})
		client := p.Client(t, http2, "127.0.0.1")
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			a := ask(t, client, method, "https://api.example.com/v1/clients/secret-id/credit?api_key=secret-query", nil, "Authorization", "Bearer secret-key", "Cookie", "secret-cookie")
			if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Content-Type") != "application/problem+json" || a.Header.Get("Retry-After") == "" ||
				a.Header.Get("Cache-Control") != "private, no-store" || a.Header.Get("X-Content-Type-Options") != "nosniff" || a.Header.Get("Strict-Transport-Security") == "" {
				t.Errorf("%s: %d %v", method, a.StatusCode, a.Header)
			}
			if method == http.MethodGet {
				checkProblem(t, a)
			}
		}
		people := ask(t, client, http.MethodGet, "https://console.example.com/sign-in/secret-token", nil)
		if people.StatusCode != http.StatusServiceUnavailable || people.Header.Get("Retry-After") == "" || !strings.Contains(people.body, "Try again") {
			t.Errorf("the console: %d %v %s", people.StatusCode, people.Header, people.body)
		}
		last := ask(t, client, http.MethodGet, "https://api.example.com/v1/me", nil).Header.Get("X-Request-Id")
		testkit.Eventually(t, func() error { // a line may follow its answer
			for _, want := range []string{"/v1/clients", "/sign-in", `"status":503`, loggedID(kind, last)} {
				if !strings.Contains(p.Logs(t), want) {
					return fmt.Errorf("no log holds %q:\n%s", want, p.Logs(t))
				}
			}
			return nil
		})
		if logs := p.Logs(t); strings.Contains(logs, "secret") {
			t.Errorf("a log holds a secret:\n%s", logs)
		}
	})
}

// loggedID is how a proxy's log holds the id of an answer, as docs/operations/proxy.md
// names the fields.
func loggedID(kind frontproxy.Kind, id string) string {
	if kind == frontproxy.Caddy {
		return `"X-Request-Id":["` + id + `"]` // of resp_headers; request>headers is deleted
	}
	return `"request_id":"` + id + `"`
}

// checkProblem checks that an answer is a problem document of the API.
func checkProblem(t *testing.T, a answer) {
	t.Helper()
	var p struct {
		Type, Title, Detail string
		Status              int
		RequestID           string `json:"request_id"`
	}
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || p.Status != a.StatusCode || p.Title == "" || p.Detail == "" ||
		!strings.HasPrefix(p.Type, "https://api.example.com/docs/errors/") || p.RequestID == "" || p.RequestID != a.Header.Get("X-Request-Id") {
		t.Errorf("%v: %s %v", err, a.body, a.Header)
	}
}

// TestStreams: what the program has written of a long answer arrives while it still
// writes.
func TestStreams(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind frontproxy.Kind, http2 bool) {
		read := make(chan struct{})
		api := upstream(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/x-ndjson")
			for range 3 {
				_, _ = io.WriteString(w, "{\"id\":1}\n")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-read:
				case <-r.Context().Done():
				}
			}
		})
		p := frontproxy.Start(t, kind, frontproxy.Config{API: api})
		r := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example.com/v1/invoices", http.NoBody))(t)
		response := testkit.Must(p.Client(t, http2, "127.0.0.1").Do(r))(t)
		defer response.Body.Close()
		lines := bufio.NewReader(response.Body)
		for range 3 {
			if line, err := lines.ReadString('\n'); err != nil {
				t.Fatalf("%q, %v", line, err)
			}
			read <- struct{}{}
		}
	})
}

// TestCallersThatGo: the program learns that the caller of a long answer has gone.
func TestCallersThatGo(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind frontproxy.Kind, http2 bool) {
		gone := make(chan struct{})
		api := upstream(t, func(w http.ResponseWriter, r *http.Request) {
			defer close(gone)
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat("x", 1000)+"\n"); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
			}
		})
		p := frontproxy.Start(t, kind, frontproxy.Config{API: api})
		r := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example.com/v1/invoices", http.NoBody))(t)
		response := testkit.Must(p.Client(t, http2, "127.0.0.1").Do(r))(t)
		testkit.Must(bufio.NewReader(response.Body).ReadString('\n'))(t)
		response.Body.Close()
		<-gone
	})
}

// TestBodies: what no request needs is refused by the program, as it would be without
// a proxy, except that nginx refuses large ones itself.
func TestBodies(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind frontproxy.Kind, http2 bool) {
		api := upstream(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) })
		p := frontproxy.Start(t, kind, frontproxy.Config{API: api})
		client := p.Client(t, http2, "127.0.0.1")
		for _, size := range []int{10, 100 << 10, 4 << 20} {
			want := http.StatusMethodNotAllowed
			if kind == frontproxy.Nginx && size > 128<<10 {
				want = http.StatusRequestEntityTooLarge
			}
			a := ask(t, client, http.MethodPost, "https://api.example.com/v1/me", strings.NewReader(strings.Repeat("x", size)))
			if a.StatusCode != want {
				t.Errorf("%d bytes: %d, want %d: %s", size, a.StatusCode, want, a.body)
			}
			if a.StatusCode == http.StatusRequestEntityTooLarge {
				checkProblem(t, a)
			}
		}
	})
}

// TestLargeHeaders: headers that the program takes, and larger ones that it refuses
// itself, pass. Beyond, nginx refuses with a problem document, Caddy with a line.
func TestLargeHeaders(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind frontproxy.Kind, http2 bool) {
		api := upstream(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Size", strconv.Itoa(len(r.Header.Get("X-Large"))+len(r.URL.RawQuery)))
		})
		p := frontproxy.Start(t, kind, frontproxy.Config{API: api})
		client := p.Client(t, http2, "127.0.0.1")
		for _, size := range []int{10_000, 16 << 10, 30_000} {
			for _, a := range []answer{
				ask(t, client, http.MethodGet, "https://api.example.com/v1/me", nil, "X-Large", strings.Repeat("x", size)),
				ask(t, client, http.MethodGet, "https://api.example.com/v1/me?"+strings.Repeat("x", size), nil),
			} {
				if a.StatusCode != http.StatusOK || a.Header.Get("X-Size") != strconv.Itoa(size) {
					t.Errorf("%d bytes: %d, %s arrived", size, a.StatusCode, a.Header.Get("X-Size"))
				}
			}
		}
		if http2 {
			return // the connection ends
		}
		a := ask(t, client, http.MethodGet, "https://api.example.com/v1/me", nil, "X-Large", strings.Repeat("x", 100_000))
		if a.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("100,000 bytes: %d", a.StatusCode)
		}
		if kind == frontproxy.Nginx {
			checkProblem(t, a)
		}
	})
}

// TestNginxRefuses: what nginx refuses itself is answered as the program does it.
func TestNginxRefuses(t *testing.T) {
	t.Parallel()
	api := upstream(t, func(http.ResponseWriter, *http.Request) {})
	p := frontproxy.Start(t, frontproxy.Nginx, frontproxy.Config{API: api})
	for path, want := range map[string]int{"/../v1/me": 400, "/v1/%zz": 400, "/" + strings.Repeat("x", 50_000): 431} {
		r := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example.com", http.NoBody))(t)
		r.URL.Opaque = path
		response := testkit.Must(p.Client(t, false, "127.0.0.1").Do(r))(t)
		a := answer{response, string(testkit.Must(io.ReadAll(response.Body))(t))}
		response.Body.Close()
		if a.StatusCode != want {
			t.Errorf("%.20s: %d, want %d", path, a.StatusCode, want)
		}
		checkProblem(t, a)
	}
	a := ask(t, p.Client(t, true, "127.0.0.1"), http.MethodTrace, "https://api.example.com/v1/me", nil)
	if a.StatusCode != http.StatusMethodNotAllowed || a.Header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("TRACE: %d %v", a.StatusCode, a.Header)
	}
	checkProblem(t, a)
}

// TestNothingIsCompressedOrUnpacked: the program's answers have the coding that the
// program chose.
func TestNothingIsCompressedOrUnpacked(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind frontproxy.Kind, http2 bool) {
		body := strings.Repeat("long ", 2000)
		api := upstream(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("ETag", `"strong"`)
			w.Header().Set("X-Accepted", strings.Join(r.Header.Values("Accept-Encoding"), ","))
			_, _ = io.WriteString(w, body)
		})
		p := frontproxy.Start(t, kind, frontproxy.Config{API: api})
		client := p.Client(t, http2, "127.0.0.1")
		for _, accept := range []string{"", "gzip", "zstd"} {
			var headers []string
			if accept != "" {
				headers = []string{"Accept-Encoding", accept}
			}
			a := ask(t, client, http.MethodGet, "https://api.example.com/v1/me", nil, headers...)
			if a.body != body || a.Header.Get("Content-Encoding") != "" || a.Header.Get("ETag") != `"strong"` || a.Header.Get("X-Accepted") != accept {
				t.Errorf("%q: %v, %d bytes", accept, a.Header, len(a.body))
			}
		}
	})
}

// TestAddresses: the program gets the address of the proxy's peer, whatever the caller
// says, and the host and scheme as the caller used them.
func TestAddresses(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind frontproxy.Kind, http2 bool) {
		echo := upstream(t, func(w http.ResponseWriter, r *http.Request) {
			seen := r.Header.Clone()
			seen.Set("Host", r.Host)
			_ = json.NewEncoder(w).Encode(seen)
		})
		p := frontproxy.Start(t, kind, frontproxy.Config{API: echo, Console: echo})
		for _, host := range []string{frontproxy.APIHost, frontproxy.ConsoleHost} {
			var seen http.Header
			a := ask(t, p.Client(t, http2, "127.0.0.7"), http.MethodGet, "https://"+host+"/", nil,
				"X-Forwarded-For", "203.0.113.9", "Forwarded", "for=203.0.113.9", "X-Forwarded-Proto", "http", "X-Forwarded-Host", "evil.example", "X-Request-Id", "mine")
			if err := json.Unmarshal([]byte(a.body), &seen); err != nil {
				t.Fatalf("%v: %s", err, a.body)
			}
			for name, want := range map[string]string{
				"X-Forwarded-For": "127.0.0.7", "X-Forwarded-Proto": "https", "X-Forwarded-Host": host, "Host": host, "Forwarded": "", "X-Request-Id": "mine",
			} {
				if got := strings.Join(seen.Values(name), ", "); got != want {
					t.Errorf("%s: %s is %q, want %q", host, name, got, want)
				}
			}
		}
	})
}

// TestOnlyItsNames: the API and the console are reached by their own names, over TLS.
func TestOnlyItsNames(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind frontproxy.Kind, http2 bool) {
		api := upstream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the API") })
		console := upstream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the console") })
		p := frontproxy.Start(t, kind, frontproxy.Config{API: api, Console: console})
		client := p.Client(t, http2, "127.0.0.1")
		for host, want := range map[string]string{frontproxy.APIHost: "the API", frontproxy.ConsoleHost: "the console"} {
			if a := ask(t, client, http.MethodGet, "https://"+host+"/", nil); a.body != want {
				t.Errorf("%s: %d %s", host, a.StatusCode, a.body)
			}
		}
		r := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example.com/v1/clients/secret-id?key=secret-query", http.NoBody))(t)
		r.Host = "other.example.com"
		response := testkit.Must(client.Do(r))(t)
		response.Body.Close()
		if response.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("another name: %d", response.StatusCode)
		}
		plain := ask(t, client, http.MethodGet, "http://api.example.com/v1/me?key=secret-query", nil, "Authorization", "Bearer secret-key")
		if plain.StatusCode != http.StatusForbidden || plain.Header.Get("Content-Type") != "application/problem+json" || plain.Header.Get("Location") != "" {
			t.Errorf("the API without TLS: %d %v", plain.StatusCode, plain.Header)
		}
		people := ask(t, client, http.MethodGet, "http://console.example.com/keys?x=1", nil)
		if to := people.Header.Get("Location"); people.StatusCode/100 != 3 || !strings.HasPrefix(to, "https://console.example.com") || !strings.HasSuffix(to, "/keys?x=1") {
			t.Errorf("the console without TLS: %d %s", people.StatusCode, to)
		}
		ask(t, client, http.MethodGet, "https://api.example.com/v1/last", nil)
		testkit.Eventually(t, func() error {
			if !strings.Contains(p.Logs(t), "/v1/last") {
				return errNotLogged
			}
			return nil
		})
		if logs := p.Logs(t); strings.Contains(logs, "secret") {
			t.Errorf("a log holds a secret:\n%s", logs)
		}
	})
}

// TestInstances: an instance that is away gets no requests while another one answers.
func TestInstances(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind frontproxy.Kind, http2 bool) {
		dead := httptest.NewServer(nil)
		away := dead.Listener.Addr().String()
		dead.Close()
		alive := upstream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") })
		p := frontproxy.Start(t, kind, frontproxy.Config{API: kind.Instances(away, alive)})
		client := p.Client(t, http2, "127.0.0.1")
		for range 20 {
			if a := ask(t, client, http.MethodGet, "https://api.example.com/v1/me", nil); a.StatusCode != http.StatusOK || a.body != "here" {
				t.Errorf("%d %s", a.StatusCode, a.body)
			}
		}
	})
}

// TestNotReady: Caddy sends nothing to an instance whose /readyz says no.
func TestNotReady(t *testing.T) {
	t.Parallel()
	api := upstream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") })
	p := frontproxy.Start(t, frontproxy.Caddy, frontproxy.Config{API: api})
	client := p.Client(t, true, "127.0.0.1")
	p.SetReady(false)
	testkit.Eventually(t, func() error {
		if a := ask(t, client, http.MethodGet, "https://api.example.com/v1/me", nil); a.StatusCode != http.StatusServiceUnavailable {
			return errStillSent
		}
		return nil
	})
	p.SetReady(true)
	testkit.Eventually(t, func() error {
		if a := ask(t, client, http.MethodGet, "https://api.example.com/v1/me", nil); a.StatusCode != http.StatusOK {
			return errNotSent
		}
		return nil
	})
}
