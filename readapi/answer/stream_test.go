package answer_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// caller is one whose connection accepts a piece late, as a system does that waits until much of
// its buffer is free.
type caller struct {
	header   http.Header
	accepts  time.Duration // how long a piece waits
	took     func(waited time.Duration) (acknowledged, writes uint64)
	mu       sync.Mutex
	began    time.Time // of the piece that waits
	deadline time.Time
	of       time.Time // the connection's own deadline
}

func (c *caller) Header() http.Header { return c.header }
func (*caller) WriteHeader(int)       {}
func (*caller) FlushError() error     { return nil }

func (c *caller) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.began = time.Now()
	c.mu.Unlock()
	for end := time.Now().Add(c.accepts); time.Now().Before(end); <-time.After(time.Second) {
		if !time.Now().Before(c.until()) {
			return 0, os.ErrDeadlineExceeded
		}
	}
	return len(p), nil
}

func (*caller) SetReadDeadline(time.Time) error { return nil }

func (c *caller) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return nil
}

func (c *caller) until() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deadline
}

// connection is the caller's.
type connection struct{ *caller }

func (c connection) Taken() (acknowledged, writes uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.took(time.Since(c.began))
}

func (c connection) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of = t
	return nil
}

// TestWhoTakesSomethingIsNotStalled: a stream ends when its caller takes nothing for the time, and
// not because the system accepts nothing: it may wait until a third of a large buffer is free.
func TestWhoTakesSomethingIsNotStalled(t *testing.T) {
	t.Parallel()
	const stall = time.Minute
	little := func(waited time.Duration) uint64 { return uint64(waited/(25*time.Second)) * 40_000 }
	for _, c := range []struct {
		name    string
		accepts time.Duration
		took    func(waited time.Duration) (acknowledged, writes uint64)
		ends    time.Duration // when at the latest; 0: not before the piece is accepted
	}{
		{"a little now and then", 12 * time.Minute, func(waited time.Duration) (uint64, uint64) { return little(waited), 7 }, 0},
		{"nothing", 12 * time.Minute, func(time.Duration) (uint64, uint64) { return 40_000, 7 }, stall},
		{"nothing any more", 12 * time.Minute, func(waited time.Duration) (uint64, uint64) { return little(min(waited, 5*time.Minute)), 7 }, 5*time.Minute + stall*9/8},
		{"other answers of its connection", 12 * time.Minute, func(waited time.Duration) (uint64, uint64) {
			return little(waited), uint64(waited / time.Second)
		}, stall},
		{"more than the list may take", time.Hour, func(waited time.Duration) (uint64, uint64) { return little(waited), 7 }, 15 * time.Minute},
		{"a piece late, on a system that tells nothing", stall - time.Second, func(time.Duration) (uint64, uint64) { return 0, 0 }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				to := &caller{header: http.Header{}, accepts: c.accepts, took: c.took}
				w := testkit.Must(answer.NewRenderer("https://docs.example/", slog.New(slog.DiscardHandler)))(t).
					Writer(to, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody), "request")
				s := testkit.Must(w.Stream(&answer.StreamHead{Form: answer.NDJSON}, connection{to}, stall, began.Add(15*time.Minute)))(t)
				defer s.Close()
				rest := func(when string) {
					if until := to.until(); !until.Equal(began.Add(15 * time.Minute)) {
						t.Errorf("%s the caller has until %v after the beginning", when, until.Sub(began))
					}
				}
				rest("before anything is sent")
				<-time.After(stall / 2) // the database
				sending := time.Now()
				_, err := s.Write([]byte("a row\n"))
				if err == nil {
					err = s.End()
				}
				took := time.Since(sending)
				if c.ends == 0 {
					if err != nil || took < c.accepts {
						t.Errorf("broken off after %v: %v", took, err)
					}
					rest("after the answer was sent")
					return
				}
				if c.ends == 15*time.Minute {
					took += stall / 2
				}
				if err == nil || took > c.ends+time.Second || took < c.ends*7/8 {
					t.Errorf("ended after %v with %v, want an error after %v", took, err, c.ends)
				}
				if c.ends > stall {
					to.mu.Lock()
					defer to.mu.Unlock()
					if to.of.Before(began.Add(c.ends * 7 / 8)) {
						t.Errorf("the connection has until %v after the beginning, want as long as the answer", to.of.Sub(began))
					}
				}
			})
		})
	}
}
