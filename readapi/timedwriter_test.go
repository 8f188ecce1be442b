package readapi_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// timedWriter is a ResponseWriter whose deadlines tests can look at instead of letting them
// pass, and whose caller takes what each lets it take.
type timedWriter struct {
	each func() error // before every write

	header http.Header
	status int
	lines  int

	mu          sync.Mutex
	read, write time.Time
}

func newTimedWriter(each func(w *timedWriter) error) *timedWriter {
	w := &timedWriter{header: http.Header{}}
	w.each = func() error { return each(w) }
	return w
}

func (w *timedWriter) Header() http.Header    { return w.header }
func (w *timedWriter) WriteHeader(status int) { w.status = status }
func (w *timedWriter) FlushError() error      { return nil }

func (w *timedWriter) Write(p []byte) (int, error) {
	if err := w.each(); err != nil {
		return 0, err
	}
	w.lines += bytes.Count(p, []byte("\n"))
	return len(p), nil
}

func (w *timedWriter) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read = t
	return nil
}

func (w *timedWriter) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.write = t
	return nil
}

// times are the deadlines as they are now; zero: there is none.
func (w *timedWriter) times() (read, write time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.read, w.write
}

// answerTo has the API answer a request, and tells whether it broke the answer off.
func (s *stand) answerTo(w http.ResponseWriter, path, key, accept string) (brokenOff <-chan bool) {
	r := httptest.NewRequestWithContext(s.t.Context(), http.MethodGet, path, http.NoBody)
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Accept", accept)
	done := make(chan bool, 1)
	go func() {
		defer func() {
			err, _ := recover().(error)
			done <- errors.Is(err, http.ErrAbortHandler)
		}()
		s.api.ServeHTTP(w, r)
	}()
	return done
}

// TestTimesOfAWholeList: what is sent must be taken within Stall. While the database is
// waited for, before the first row or after it, a list has all of its own time, and the time
// of other requests is none for it.
func TestTimesOfAWholeList(t *testing.T) {
	t.Parallel()
	var keys askedKeys
	s := newStand(t, func(c *readapi.Config) {
		keys.Authenticator, c.Keys = c.Keys, &keys
		c.Timeout, c.WholeLists.Timeout, c.WholeLists.Stall = 2*time.Second, time.Hour, time.Minute
	})
	s.fat("acme", 100)
	key := s.key("acme", access.ContractorsRead)
	asked, chunks, writes := time.Now(), 0, 0
	hasItsTime := func(w *timedWriter, when string) {
		if read, write := w.times(); !read.IsZero() || write.Before(asked.Add(time.Hour)) {
			t.Errorf("%s a list that began at %v must be asked for by %v and sent by %v", when, asked, read, write)
		}
	}
	w := newTimedWriter(func(w *timedWriter) error {
		writes++
		if _, write := w.times(); write.IsZero() || write.After(time.Now().Add(time.Minute)) {
			t.Errorf("write %d need not be taken before %v", writes, write)
		}
		return nil
	})
	requests := make(chan context.Context, 1)
	keys.each(func(ctx context.Context, n int64) error {
		if n == 1 {
			requests <- ctx
		} else if n > 3 {
			chunks++
			hasItsTime(w, "between two chunks")
		}
		return nil
	})
	tx := testkit.Must(s.pool.Begin(t.Context()))(t)
	testkit.Must(tx.Exec(t.Context(), `LOCK TABLE contractor IN ACCESS EXCLUSIVE MODE`))(t)
	done := s.answerTo(w, "/v1/contractors", key, ndjson)
	s.locksWaitedFor(1)
	hasItsTime(w, "before its first row")
	<-(<-requests).Done() // the time of other requests
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if brokenOff := <-done; brokenOff || w.status != http.StatusOK || w.lines != 101 || chunks < 5 || writes < 5 {
		t.Errorf("%d with %d lines, broken off: %v; %d chunks, %d writes; recorded as %+v", w.status, w.lines, brokenOff, chunks, writes, s.requests.all())
	}
	s.requests.take()
	keys.from(func(int64) error { return nil })

	// A caller that takes no more of it than one write.
	writes = 0
	w = newTimedWriter(func(w *timedWriter) error {
		if writes++; writes == 1 {
			return nil
		}
		if _, write := w.times(); write.IsZero() || write.After(time.Now().Add(time.Minute)) {
			t.Errorf("the caller may take nothing until %v", write)
		}
		return os.ErrDeadlineExceeded
	})
	if brokenOff := <-s.answerTo(w, "/v1/contractors", key, ndjson); !brokenOff || writes != 2 {
		t.Errorf("a caller takes nothing: broken off: %v, after %d writes", brokenOff, writes)
	}
	s.until(func() bool { return testkit.AsPool(s.config.WholeLists.Pool).Stat().AcquiredConns() == 0 })
	if r := s.requests.take()[0]; r.Status != 499 || r.Problem == nil || r.Problem.Title != "The list was broken off" {
		t.Errorf("a caller that takes nothing is recorded as %+v", r)
	}
}
