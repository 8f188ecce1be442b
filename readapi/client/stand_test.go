package client_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/client"
)

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
