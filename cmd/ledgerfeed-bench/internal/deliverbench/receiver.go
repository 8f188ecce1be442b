package deliverbench

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"
)

// receiver is a receiver on loopback that answers at once, unless it hangs.
type receiver struct {
	*httptest.Server
	speaks   protocol
	answered atomic.Int64                       // requests
	seen     atomic.Int64                       // requests, answered or not
	arrived  func(eventID string, at time.Time) // called for every request, if not nil
	hang     <-chan struct{}                    // if not nil, no answer before it is closed
}

// protocol is a version of HTTP.
type protocol string

// What receivers speak.
const (
	http1 protocol = "HTTP/1.1"
	http2 protocol = "HTTP/2"
)

func newReceiver(speaks protocol) *receiver {
	r := &receiver{speaks: speaks}
	r.Server = httptest.NewUnstartedServer(r)
	r.Config.ErrorLog = nil
	r.EnableHTTP2 = speaks == http2
	r.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	r.StartTLS()
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if (r.speaks == http2) != (req.ProtoMajor == 2) {
		w.WriteHeader(http.StatusHTTPVersionNotSupported) // so that the message never arrives and the benchmark fails
		return
	}
	r.seen.Add(1)
	if r.arrived != nil {
		r.arrived(req.Header.Get("SERVICE-Event-Id"), time.Now())
	}
	_, _ = io.Copy(io.Discard, req.Body)
	if r.hang != nil {
		select {
		case <-r.hang:
		case <-req.Context().Done():
		}
		return
	}
	r.answered.Add(1)
}

// url is a receiver's address under the name in its certificate.
func (r *receiver) url() string { return r.URL + "/webhook" }

// awaitTimeout bounds the wait for messages.
const awaitTimeout = 5 * time.Minute

// awaitCount waits until a count of messages has reached a number.
func awaitCount(ctx context.Context, count *atomic.Int64, want int64) error {
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	timeout := time.After(awaitTimeout)
	for count.Load() < want {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timeout:
			return fmt.Errorf("%d of %d messages arrived within %s", count.Load(), want, awaitTimeout)
		case <-poll.C:
		}
	}
	return nil
}
