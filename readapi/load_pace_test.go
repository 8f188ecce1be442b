//go:build pace

package readapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// response is an answer, with the times of the request and of the answer.
type response struct {
	instance    int
	status      int
	asked, came time.Time
}

// load is callers that ask several instances for /v1/me with one key.
type load struct {
	group  *errgroup.Group
	cancel context.CancelFunc
	more   chan struct{} // signalled after an answer

	mu   sync.Mutex
	list []response
}

// startLoad starts four callers for each instance. Each makes a request at every
// interval, or when it has its answer, if that takes longer.
func startLoad(ctx context.Context, instances []*httptest.Server, key string, every time.Duration) *load {
	ctx, cancel := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	l := &load{group: group, cancel: cancel, more: make(chan struct{}, 1)}
	for i, server := range instances {
		for range 4 {
			group.Go(func() error { return l.call(ctx, i, server, key, every) })
		}
	}
	return l
}

func (l *load) call(ctx context.Context, instance int, server *httptest.Server, key string, every time.Duration) error {
	pace := time.NewTicker(every)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pace.C:
		}
		asked := time.Now()
		r, err := ask(ctx, server, http.MethodGet, "/v1/me", key)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		l.add(response{instance, r.status, asked, time.Now()})
	}
}

func (l *load) add(h response) {
	l.mu.Lock()
	l.list = append(l.list, h)
	l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
}

func (l *load) soFar() []response {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

// until waits until the answers are enough.
func (l *load) until(t testing.TB, what string, enough func([]response) bool) {
	t.Helper()
	patience := time.After(2 * time.Minute)
	for !enough(l.soFar()) {
		select {
		case <-l.more:
		case <-patience:
			t.Fatalf("%s does not happen", what)
		}
	}
}

// stop ends the load and returns all answers.
func (l *load) stop(t testing.TB) []response {
	t.Helper()
	l.cancel()
	if err := l.group.Wait(); err != nil {
		t.Fatal(err)
	}
	return l.soFar()
}

// count is how many answers of an instance have a status and came before a time.
func count(list []response, instance, status int, before time.Time) int {
	n := 0
	for i := range list {
		if h := &list[i]; h.instance == instance && h.status == status && h.came.Before(before) {
			n++
		}
	}
	return n
}
