package console

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// lockTimeout is how long a statement of the console waits for a locked row. Meanwhile a person
// waits for the page and a connection is in use.
const lockTimeout = 5 * time.Second

// statementTimeout is how long a statement of the console may take: long enough for the heaviest
// pages, and well below the server's write timeout (NewServer).
const statementTimeout = 20 * time.Second

// PoolSettings returns the run-time parameters for the connections of a Console and
// its stores.
func PoolSettings() map[string]string {
	return map[string]string{"lock_timeout": pg.Milliseconds(lockTimeout), "statement_timeout": pg.Milliseconds(statementTimeout)}
}

// slowAtOnce is how many slow requests of one workspace may be in flight.
const slowAtOnce = 2

// slow limits the requests that may hold a connection for long: changes, which may wait for a lock,
// and pages that read many rows. It reserves one connection for all other pages and for signing in,
// and the last free place for a workspace with no slow request in flight. If several workspaces
// wait, the one with the fewest requests in flight goes next; among those, the one that has waited
// longest.
type slow struct {
	total int

	mu         sync.Mutex
	used       int
	turn       uint64 // turn of the request that was queued last
	workspaces map[string]*slowOf
}

// slowOf holds the slow requests of one workspace.
type slowOf struct {
	used    int
	waiting []*slowRequest // oldest first
}

type slowRequest struct {
	turn    uint64
	granted chan struct{} // closed when the request may proceed
}

// newSlow creates a limiter for a pool of this many connections.
func newSlow(connections int) *slow {
	return &slow{total: max(1, connections-1), workspaces: map[string]*slowOf{}}
}

// inTurn makes every request, or only those that change something, wait for a place. It must come
// after signedIn.
func (s *slow) inTurn(every bool) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if every || r.Method == http.MethodPost {
				req := web.From(w, r)
				leave := s.enter(r.Context(), req.Session.WorkspaceID)
				if leave == nil {
					return // the browser has gone away
				}
				req.Leave = sync.OnceFunc(leave)
				defer req.Leave()
			}
			next.ServeHTTP(w, r)
		})
	}
}

// enter waits for a place and returns a function that gives it back; nil: ctx ended first.
func (s *slow) enter(ctx context.Context, workspaceID string) (leave func()) {
	r := s.request(workspaceID)
	select {
	case <-r.granted:
	case <-ctx.Done():
		if s.withdraw(workspaceID, r) {
			return nil
		}
	}
	return func() { s.leave(workspaceID) }
}

func (s *slow) request(workspaceID string) *slowRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.workspaces[workspaceID]
	if w == nil {
		w = &slowOf{}
		s.workspaces[workspaceID] = w
	}
	s.turn++
	r := &slowRequest{s.turn, make(chan struct{})}
	w.waiting = append(w.waiting, r)
	s.grant()
	return r
}

// withdraw removes a waiting request from the queue; false: it already has a place.
func (s *slow) withdraw(workspaceID string, r *slowRequest) bool {
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

func (s *slow) leave(workspaceID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	s.workspaces[workspaceID].used--
	s.forget(workspaceID)
	s.grant()
}

// forget drops a workspace with no request in flight or waiting. The caller holds mu.
func (s *slow) forget(workspaceID string) {
	if w := s.workspaces[workspaceID]; w.used == 0 && len(w.waiting) == 0 {
		delete(s.workspaces, workspaceID)
	}
}

// grant gives free places to waiting requests. The caller holds mu.
func (s *slow) grant() {
	for next := s.next(); next != nil; next = s.next() {
		close(next.waiting[0].granted)
		next.waiting = slices.Delete(next.waiting, 0, 1)
		next.used++
		s.used++
	}
}

// next returns the workspace that gets the next place; nil: none may have one. The caller holds mu.
func (s *slow) next() (next *slowOf) {
	for _, w := range s.workspaces {
		most := s.total
		if w.used > 0 {
			most-- // the last place is reserved for a workspace that has none
		}
		switch {
		case len(w.waiting) == 0 || w.used >= slowAtOnce || s.used >= most:
		case next == nil, w.used < next.used, w.used == next.used && w.waiting[0].turn < next.waiting[0].turn:
			next = w
		}
	}
	return next
}
