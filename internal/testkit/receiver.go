package testkit

import (
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// Received is a request as a Receiver got it.
type Received struct {
	Header http.Header
	Body   string
	At     time.Time
}

// Receiver is an HTTPS server on this machine, over HTTP/2 and HTTP/1.1, that
// keeps the requests it gets. CAFile holds its certificate.
type Receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []Received
	status int // of the answers to come; 0: 200
	more   chan struct{}
}

// NewReceiver starts a Receiver that answers 200, or what handler writes; n is the
// request's number, from 1. It ends with the test.
func NewReceiver(t testing.TB, handler func(n int, w http.ResponseWriter, r *http.Request)) *Receiver {
	t.Helper()
	rc := &Receiver{more: make(chan struct{}, 1)}
	rc.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		rc.mu.Lock()
		rc.got = append(rc.got, Received{r.Header, string(body), time.Now()})
		n, status := len(rc.got), rc.status
		rc.mu.Unlock()
		select {
		case rc.more <- struct{}{}:
		default:
		}
		switch {
		case handler != nil:
			handler(n, w, r)
		case status != 0:
			w.WriteHeader(status)
		}
	}))
	rc.EnableHTTP2 = true
	rc.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	rc.StartTLS()
	t.Cleanup(func() { rc.CloseClientConnections(); rc.Close() })
	return rc
}

// Answer sets the status with which a Receiver without a handler answers the requests that come from now
// on. It does not change the answer to a request that Count or Wait has reported.
func (r *Receiver) Answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// Count is the number of requests so far.
func (r *Receiver) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

// All returns the requests so far.
func (r *Receiver) All() []Received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// Wait returns the requests when there are at least n. The test fails after
// three minutes.
func (r *Receiver) Wait(t testing.TB, n int) []Received {
	t.Helper()
	deadline := time.After(eventuallyTimeout)
	for {
		if r.Count() >= n {
			return r.All()
		}
		select {
		case <-r.more:
		case <-deadline:
			t.Fatalf("received %d messages, want %d", r.Count(), n)
		}
	}
}

// TakeTime lets a handler take time, unless the caller gives up before.
func TakeTime(r *http.Request, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

// Loopback are the address ranges of this machine, where a Receiver listens.
func Loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// CAFile returns a file with the certificate that every httptest server has.
func CAFile(t testing.TB) string {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	path := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(path, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
