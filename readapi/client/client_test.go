package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerfeed/ledgerfeed/readapi/client"
)

// waits is a clock that moves only when a client waits.
type waits struct {
	now  time.Time
	list []time.Duration
}

func (w *waits) config(cfg *client.Config) {
	w.now = time.Date(2026, 10, 2, 9, 0, 0, 0, time.UTC)
	cfg.RetryFor = 0
	cfg.Transport = &http.Transport{DisableKeepAlives: true} // which would try a broken connection again by itself
	cfg.Now = func() time.Time { return w.now }
	cfg.Random = func() float64 { return 0.5 }
	cfg.Sleep = func(ctx context.Context, d time.Duration) error {
		w.list = append(w.list, d)
		w.now = w.now.Add(d)
		return ctx.Err()
	}
}

// answers is a server that gives answers in turn, the last one for ever, and keeps the requests.
type answers struct {
	mu       sync.Mutex
	list     []func(http.ResponseWriter, *http.Request)
	requests []*http.Request
}

func newAnswers(t testing.TB, list ...func(http.ResponseWriter, *http.Request)) (*answers, string) {
	t.Helper()
	a := &answers{list: list}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	return a, server.URL
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.requests = append(a.requests, r)
	answer := a.list[min(len(a.requests), len(a.list))-1]
	a.mu.Unlock()
	answer(w, r)
}

func status(code int, body string, header ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func cutWithin(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	fmt.Fprint(w, `{"data":[`)
	panic(http.ErrAbortHandler)
}

const noRows = `{"data":[],"has_more":false,"next_cursor":"c"}`

func problem(code client.Code) string {
	return fmt.Sprintf(`{"title":"x","status":400,"code":%q,"detail":"In words.","request_id":"req_1","errors":[{"field":"cursor","message":"is old"}]}`, code)
}

// TestRetries: waits grow up to a bound, Retry-After is kept to, and after two minutes the last
// error is the answer.
func TestRetries(t *testing.T) {
	t.Parallel()
	good := status(200, noRows)
	for _, c := range []struct {
		name    string
		answers []func(http.ResponseWriter, *http.Request)
		waits   []time.Duration
		failed  int // the status of the error; 0: none
	}{
		{"all that may pass", []func(http.ResponseWriter, *http.Request){status(500, ""), status(503, problem(client.CodeBusy)), status(429, ""), cut, cutWithin, good},
			[]time.Duration{750 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second, 6 * time.Second, 12 * time.Second}, 0},
		{"Retry-After in seconds", []func(http.ResponseWriter, *http.Request){status(429, "", "Retry-After", "40"), good}, []time.Duration{40*time.Second + 250*time.Millisecond}, 0},
		{"Retry-After as a date", []func(http.ResponseWriter, *http.Request){status(503, "", "Retry-After", "Fri, 02 Oct 2026 09:00:07 GMT"), good}, []time.Duration{7*time.Second + 250*time.Millisecond}, 0},
		{"Retry-After beyond the bound", []func(http.ResponseWriter, *http.Request){status(503, "", "Retry-After", "3600")}, nil, 503},
		{"a service that is down", []func(http.ResponseWriter, *http.Request){status(503, "")}, []time.Duration{
			750 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second, 6 * time.Second, 12 * time.Second, 22500 * time.Millisecond, 22500 * time.Millisecond, 22500 * time.Millisecond, 22500 * time.Millisecond,
		}, 503},
		{"400", []func(http.ResponseWriter, *http.Request){status(400, "")}, nil, 400},
		{"401", []func(http.ResponseWriter, *http.Request){status(401, "")}, nil, 401},
		{"403", []func(http.ResponseWriter, *http.Request){status(403, "")}, nil, 403},
		{"404", []func(http.ResponseWriter, *http.Request){status(404, "")}, nil, 404},
		{"a redirect", []func(http.ResponseWriter, *http.Request){status(302, "", "Location", "https://elsewhere.example.com")}, nil, 302},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, address := newAnswers(t, c.answers...)
			var w waits
			err := lastError(patient(t, address, "k", w.config))
			if refused, _ := errors.AsType[*client.Error](err); c.failed == 0 && err != nil || c.failed != 0 && (refused == nil || refused.Status != c.failed) {
				t.Errorf("got %v, want status %d", err, c.failed)
			}
			if !slices.Equal(w.list, c.waits) {
				t.Errorf("waited %v, want %v", w.list, c.waits)
			}
		})
	}
}

// lastError reads the invoices.
func lastError(api *client.Client) (last error) {
	for _, err := range api.Invoices(context.Background(), client.InvoiceParams{}) {
		last = err
	}
	return last
}

// TestRetriesEnd: when the caller gives up, and at the first error if he wants no second try.
func TestRetriesEnd(t *testing.T) {
	t.Parallel()
	a, address := newAnswers(t, status(503, ""))
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	api := patient(t, address, "k", func(c *client.Config) {
		c.Sleep = func(ctx context.Context, _ time.Duration) error { cancel(enough); return context.Cause(ctx) }
	})
	_, err := api.Me(ctx)
	if refused, ok := errors.AsType[*client.Error](err); !errors.Is(err, enough) || !ok || refused.Status != 503 {
		t.Errorf("got %v, want what the caller said and the last answer", err)
	}
	if err := lastError(patient(t, address, "k", func(c *client.Config) { c.RetryFor = -1 })); err == nil || len(a.requests) != 2 {
		t.Errorf("%v after %d requests", err, len(a.requests))
	}
}

// TestATryTakesAMinuteAtMost: a server that never answers is tried again, and at last the error is
// not one of the caller's context.
func TestATryTakesAMinuteAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		api := patient(t, "https://api.example.com", "k", func(c *client.Config) {
			c.RetryFor, c.Sleep = 0, nil
			c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				tries++
				<-r.Context().Done()
				return nil, r.Context().Err()
			})
		})
		if err := lastError(api); err == nil || errors.Is(err, context.Canceled) || tries != 2 {
			t.Errorf("%v after %d tries", err, tries)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestErrors: an answer's problem document in full, and what is not one.
func TestErrors(t *testing.T) {
	t.Parallel()
	_, address := newAnswers(t, status(400, problem(client.CodeCursorInvalid), "X-Request-Id", "req_1"), status(403, "<html>"))
	api := patient(t, address, "k")
	_, err := api.Invoice(t.Context(), "a/b")
	refused, ok := errors.AsType[*client.Error](err)
	if !ok || client.CodeOf(err) != client.CodeCursorInvalid || refused.RequestID != "req_1" || refused.Path != "/v1/invoices/a%2Fb" ||
		!slices.Equal(refused.Parameters, []client.ParameterError{{Field: "cursor", Message: "is old"}}) {
		t.Errorf("got %+v", err)
	}
	const want = "/v1/invoices/a%2Fb answered 400 cursor_invalid: In words. cursor: is old. (request req_1)"
	if err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if _, err := api.Me(t.Context()); client.CodeOf(err) != "" || err.Error() != "/v1/me answered 403" {
		t.Errorf("got %v", err)
	}
}

// TestAnAddressThatMoved: the workspace is served from another place, with the same key.
func TestAnAddressThatMoved(t *testing.T) {
	t.Parallel()
	there, address := newAnswers(t, status(200, noRows))
	_, before := newAnswers(t, status(503, `{"code":"unavailable","detail":"x","moved_to":"`+address+`"}`))
	if err := lastError(patient(t, before, "k")); err != nil {
		t.Fatal(err)
	}
	if got := there.requests[0].Header.Get("Authorization"); got != "Bearer k" {
		t.Errorf("the key is %q", got)
	}
	_, insecure := newAnswers(t, status(503, `{"code":"unavailable","detail":"x","moved_to":"http://elsewhere.example.com"}`))
	var w waits
	if err := lastError(patient(t, insecure, "k", w.config)); err == nil {
		t.Error("the key went over plain http")
	}
}

// TestAddresses: a key never travels in plain text.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for address, good := range map[string]bool{
		"https://api.example.com": true, "https://api.example.com/x/": true, "http://127.0.0.1:8080": true, "http://localhost:1": true, "http://[::1]:1": true,
		"http://api.example.com": false, "api.example.com": false, "": false, "ftp://x": false, "https://u:p@x": false, "https://x?q": false,
	} {
		if _, err := client.New(client.Config{URL: address, Key: "k"}); (err == nil) != good {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// TestCache: an answer that has not changed is not sent again, and the newest ones are kept.
func TestCache(t *testing.T) {
	t.Parallel()
	s, address := newAnswers(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		if r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprintf(w, `{"id":%q}`, r.URL.Path)
	})
	api := patient(t, address, "k", func(c *client.Config) { c.CacheEntries = 2 })
	for _, id := range []string{"a", "a", "b", "a", "c", "a", "b"} {
		invoice, err := api.Invoice(t.Context(), id)
		if err != nil || invoice.ID != "/v1/invoices/"+id {
			t.Fatal(invoice, err)
		}
	}
	var asked []string
	for _, r := range s.requests {
		asked = append(asked, r.URL.Path[len("/v1/invoices/"):]+r.Header.Get("If-None-Match"))
	}
	if got, want := strings.Join(asked, " "), `a a"1" b a"1" c a"1" b`; got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
}

// TestAtLeast: the position is sent, and the first Client does not send it.
func TestAtLeast(t *testing.T) {
	t.Parallel()
	s, address := newAnswers(t, status(200, `{}`))
	api := patient(t, address, "k")
	for _, c := range []*client.Client{api.AtLeast(42), api} {
		if _, err := c.Me(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := s.requests[0].Header.Get("Log-Position-At-Least"), s.requests[1].Header.Get("Log-Position-At-Least"); a != "42" || b != "" {
		t.Errorf("sent %q and %q", a, b)
	}
}

// TestAnswersThatAreNoLists: a list that would never end, and what is not one.
func TestAnswersThatAreNoLists(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{}`, `{"data":[],"has_more":true}`, `<html>`, `{"data":[{"id":1}],"has_more":false,"next_cursor":"c"}`, `{"data":[],"has_more":true,"next_cursor":"same"}`} {
		_, address := newAnswers(t, status(200, body))
		if err := lastError(patient(t, address, "k")); err == nil {
			t.Errorf("%s: no error", body)
		}
	}
}

// TestIdleFollowersWait: the first page comes at once, the next one may be held, and a client whose
// requests are not held waits by itself.
func TestIdleFollowersWait(t *testing.T) {
	t.Parallel()
	s, address := newAnswers(t, status(200, noRows), status(200, noRows, "Preference-Applied", "wait=25"), status(200, noRows, "Log-Position", "7"))
	var w waits
	var state place
	pages := 0
	for _, err := range patient(t, address, "k", w.config).FollowInvoices(t.Context(), client.InvoiceParams{}, &state, client.FollowOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if pages++; pages == 4 {
			break
		}
	}
	var preferred []string
	for _, r := range s.requests {
		preferred = append(preferred, r.Header.Get("Prefer"))
	}
	if want := []string{"", "wait=25", "wait=25", "wait=25"}; !slices.Equal(preferred, want) {
		t.Errorf("asked with %q, want %q", preferred, want)
	}
	if want := []time.Duration{4 * time.Second}; !slices.Equal(w.list, want) {
		t.Errorf("waited %v, want %v", w.list, want)
	}
	if got := s.requests[0].URL.RawQuery + " " + s.requests[1].URL.RawQuery; got != "include=removed cursor=c&include=removed" {
		t.Errorf("asked for %s", got)
	}
}
