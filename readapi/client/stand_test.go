package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/scenario"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/projections/projectionstest"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/client"
)

// service is a running API with the log, the read models and the keys of one workspace, acme.
type service struct {
	*projectionstest.Bench

	t     testing.TB
	url   string
	clock *testkit.Clock // of the API
	keys  *access.Store
}

func newService(t testing.TB) *service {
	t.Helper()
	s := &service{Bench: projectionstest.New(t), t: t, clock: testkit.RunningClock()}
	open := func(o pg.Options) *pg.Pool {
		o.CancelStatements, o.ReadBuffer = true, readapi.ReadBuffer
		pool := testkit.Must(pg.Open(t.Context(), s.URL, o))(t)
		t.Cleanup(pool.Close)
		return pool
	}
	pool := open(pg.Options{MaxConns: 8, Settings: readapi.PoolSettings()})
	lists := open(pg.Options{MaxConns: 4, Settings: readapi.WholeListPoolSettings(time.Minute)})
	format := access.NewFormat(brand.Brand{})
	s.keys = testkit.Must(access.NewStore(access.StoreConfig{Pool: pool, Format: format, Clock: s.clock.Now}))(t)
	api := testkit.Must(readapi.New(readapi.Config{
		Pool: pool, Feed: eventlog.NewFeed(pool), Notifier: s.Notifier, Format: format, Clock: s.clock.Now, Logger: testkit.Discard(),
		Keys:    testkit.Must(access.NewDirectory(access.DirectoryConfig{Pool: pool, Format: format, Clock: s.clock.Now}))(t),
		Limiter: testkit.Must(access.NewLimiter(access.LimiterConfig{Pool: pool, Clock: s.clock.Now}))(t),
		BaseURL: "https://api.example.com", DocsURL: "https://docs.example.com", CursorKey: bytes.Repeat([]byte{7}, 32),
		WholeLists: readapi.WholeLists{Pool: lists, Timeout: 10 * time.Minute},
	}))(t)
	runs(t, api.Run)
	listener := testkit.Must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	server := &httptest.Server{Listener: api.RewriteErrors(listener), Config: readapi.NewServer(api, testkit.Discard())}
	server.Start()
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// runs runs something until the test ends.
func runs(t testing.TB, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// grow appends entries and projects them.
func (s *service) grow(drafts ...domain.Draft) {
	s.t.Helper()
	s.Append(drafts)
	s.Project(1000)
}

// key makes a key.
func (s *service) key(permissions ...access.Permission) (id, text string) {
	s.t.Helper()
	record, secret, err := s.keys.Create(s.t.Context(), access.NewKey{
		WorkspaceID: "acme", Name: "Reporting", Permissions: access.PermissionsOf(permissions...), RateLimit: 1_000_000,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return record.ID, secret.Reveal()
}

// withoutPay has all permissions except pay:read and margin:read.
func withoutPay() []access.Permission {
	return slices.DeleteFunc(access.AllPermissions(), func(p access.Permission) bool { return p == access.PayRead || p == access.MarginRead })
}

// patient makes a Client that tries often enough for any test, and does not wait between its tries.
func patient(t testing.TB, address, key string, change ...func(*client.Config)) *client.Client {
	t.Helper()
	var waits atomic.Int64
	cfg := client.Config{URL: address, Key: key, RetryFor: time.Hour, Sleep: func(ctx context.Context, _ time.Duration) error {
		if waits.Add(1) > 10_000 {
			return errors.New("the client has tried too often")
		}
		return ctx.Err()
	}}
	for _, f := range change {
		f(&cfg)
	}
	return testkit.Must(client.New(cfg))(t)
}

// line is an entry of acme.
func line(t testing.TB, format string, args ...any) domain.Draft {
	t.Helper()
	return projectionstest.Draft(t, []byte(`{"workspace_id":"acme",`+fmt.Sprintf(format, args...)+`}`))
}

// history is the beginning of an agency's last 25 days, with something at its end for each list and
// rows that are removed or need pay:read.
func history(t testing.TB, seed uint64, n int) []domain.Draft {
	t.Helper()
	end := time.Now().UTC().Truncate(time.Hour)
	g := scenario.New(scenario.Config{
		WorkspaceID: "acme", Seed: seed, Start: end.AddDate(0, 0, -25), End: end, Entries: n, Clients: 4, Contractors: 3,
	})
	var drafts []domain.Draft
	for entry, ok := g.Next(); ok; entry, ok = g.Next() {
		drafts = append(drafts, projectionstest.Draft(t, entry.AppendNDJSON(nil)))
	}
	return append(drafts,
		line(t, `"type":"payment.confirmed","data":{"payment_id":"pm_1","client_id":"cl_1","amount":"908.51","currency":"EUR","source":"quickbooks"}`),
		line(t, `"type":"credit.topped_up","data":{"credit_id":"cr_1","client_id":"cl_1","amount":"78.06","currency":"EUR"}`),
		line(t, `"type":"charge.created","data":{"charge_id":"ch_1","client_id":"cl_1","date":"2026-10-01","category":"a","kind":"b","billed_to_client":false,"amount":"1.00","currency":"EUR","period":"2026-10"}`),
		line(t, `"type":"time_entry.recorded","data":{"time_entry_id":"te_1","work_date":"2026-10-01","client_id":"cl_1","contractor_id":"co_1","service":"a","hours":7.5,"period":"2026-10","currency":"EUR"}`),
		line(t, `"type":"time_entry.deleted","data":{"time_entry_id":"te_1"}`),
	)
}

// badProxy is a reverse proxy that cuts connections before, in and after the headers of an answer,
// answers 429, 500 and 503 by itself, and takes its time. Of ten requests about half go well.
type badProxy struct {
	forward *httputil.ReverseProxy

	mu     sync.Mutex
	random *rand.Rand
	faults map[string]int
}

func newBadProxy(t testing.TB, upstream string, seed uint64) (*badProxy, string) {
	t.Helper()
	to := testkit.Must(url.Parse(upstream))(t)
	p := &badProxy{random: rand.New(rand.NewPCG(seed, 0)), faults: map[string]int{}}
	p.forward = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: -1,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
	}
	server := httptest.NewUnstartedServer(p)
	server.Config.ErrorLog = p.forward.ErrorLog
	server.Start()
	t.Cleanup(server.Close)
	return p, server.URL
}

func (p *badProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	fault := [...]string{"", "", "", "", "", "", "429", "500", "503", "cut before", "cut within", "slow"}[p.random.IntN(12)]
	cut := p.random.IntN(3_000)
	p.faults[fault]++
	p.mu.Unlock()
	switch fault {
	case "429", "500", "503":
		w.Header().Set("Retry-After", "1")
		http.Error(w, "not now", map[string]int{"429": 429, "500": 500, "503": 503}[fault])
	case "cut before":
		panic(http.ErrAbortHandler)
	case "cut within":
		p.forward.ServeHTTP(&cutWriter{ResponseWriter: w, left: cut}, r)
	case "slow":
		testkit.TakeTime(r, 20*time.Millisecond)
		p.forward.ServeHTTP(w, r)
	default:
		p.forward.ServeHTTP(w, r)
	}
}

// cutWriter cuts the connection after some bytes of the body.
type cutWriter struct {
	http.ResponseWriter

	left int
}

func (w *cutWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		_, _ = w.ResponseWriter.Write(p[:max(0, len(p)+w.left)])
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return w.ResponseWriter.Write(p)
}

func (w *cutWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
