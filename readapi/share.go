package readapi

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// shares divides the connections that read pages among the workspaces. Each workspace has at most
// its share, however many requests it sends. A free connection goes to the waiting workspace that
// uses the fewest, and among equals to the one that has waited longest. So a workspace that floods
// the service with expensive pages delays its own requests, and another workspace waits for at most
// one page of somebody else. A workspace whose pages are slow on average gets only one connection,
// because each slow page keeps a processor of the database busy.
//
// Single rows and versions are not counted: they cost little, and one batch reads them for many
// requests.
type shares struct {
	total, each int // connections for all pages, and for the pages of one workspace
	wait        time.Duration
	waited      atomic.Int64 // nanoseconds that requests waited because all connections for pages were in use

	mu         sync.Mutex
	used       int
	last       time.Time         // when a page last ended
	idle       chan struct{}     // closed when no connection is used; nil: nobody waits for that
	turn       uint64            // number of the latest request
	workspaces map[string]*share // workspaces that use a connection or wait for one
}

// share is what one workspace uses.
type share struct {
	used    int
	waiting []*shareRequest // oldest first
	average time.Duration   // moving average of how long its pages take
}

// slowPage is the time above which a page is slow. A page read in the order of an index takes one
// or two milliseconds.
const slowPage = 25 * time.Millisecond

// ended notes how long a page took.
func (w *share) ended(took time.Duration) { w.average += (took - w.average) / 4 }

// most returns how many connections the workspace may use at once.
func (w *share) most(each int) int {
	if w.average > slowPage {
		return 1
	}
	return each
}

type shareRequest struct {
	turn    uint64
	granted chan struct{} // closed when the connection may be used
	allUsed bool          // when it was asked for, all connections were in use, not only the workspace's share
}

func newShares(total, each int, wait time.Duration) *shares {
	return &shares{total: max(1, total), each: max(1, each), wait: wait, workspaces: map[string]*share{}}
}

// take waits until the workspace may use a connection. The caller must call release when it is
// done. The error is a 503 or the cause of ctx.
func (s *shares) take(ctx context.Context, workspaceID string) (release func(), err error) {
	r := s.request(workspaceID)
	select {
	case <-r.granted:
		return s.granted(workspaceID), nil
	default:
	}
	if r.allUsed {
		began := time.Now() // not the injected clock: it measures the database
		defer func() { s.waited.Add(int64(time.Since(began))) }()
	}
	timer := time.NewTimer(s.wait)
	defer timer.Stop()
	select {
	case <-r.granted:
		return s.granted(workspaceID), nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timer.C:
		err = answer.Busy()
	}
	if !s.withdraw(workspaceID, r) {
		s.granted(workspaceID)() // it was granted at the same moment
	}
	return nil, err
}

// granted begins the use of a connection; the returned function ends it.
func (s *shares) granted(workspaceID string) (release func()) {
	began := time.Now() // not the injected clock: it measures the database
	return sync.OnceFunc(func() { s.release(workspaceID, time.Since(began)) })
}

// request asks for a connection.
func (s *shares) request(workspaceID string) *shareRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.workspaces[workspaceID]
	if w == nil {
		w = &share{}
		s.workspaces[workspaceID] = w
	}
	s.turn++
	r := &shareRequest{turn: s.turn, granted: make(chan struct{}), allUsed: s.used >= s.total}
	w.waiting = append(w.waiting, r)
	s.grant()
	return r
}

func (s *shares) release(workspaceID string, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	s.last = time.Now()
	if s.used == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
	w := s.workspaces[workspaceID]
	w.used--
	w.ended(took)
	s.forget(workspaceID)
	s.grant()
}

// withdraw cancels a waiting request; false: it was already granted.
func (s *shares) withdraw(workspaceID string, r *shareRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.workspaces[workspaceID]
	i := slices.Index(w.waiting, r)
	if i < 0 {
		return false
	}
	w.waiting = slices.Delete(w.waiting, i, i+1)
	s.forget(workspaceID)
	return true
}

// forget drops a workspace that uses nothing and waits for nothing. The caller holds mu.
func (s *shares) forget(workspaceID string) {
	if w := s.workspaces[workspaceID]; w.used == 0 && len(w.waiting) == 0 {
		delete(s.workspaces, workspaceID)
	}
}

// grant gives free connections to waiting requests. The caller holds mu.
func (s *shares) grant() {
	for s.used < s.total {
		next := s.next()
		if next == nil {
			return
		}
		close(next.waiting[0].granted)
		next.waiting = slices.Delete(next.waiting, 0, 1)
		next.used++
		s.used++
	}
}

// next returns the workspace that gets the next connection; nil: none may have one. The caller
// holds mu.
func (s *shares) next() (next *share) {
	for _, w := range s.workspaces {
		switch {
		case len(w.waiting) == 0 || w.used >= w.most(s.each):
		case next == nil, w.used < next.used, w.used == next.used && w.waiting[0].turn < next.waiting[0].turn:
			next = w
		}
	}
	return next
}
