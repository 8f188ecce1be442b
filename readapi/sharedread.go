package readapi

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// sharedReads lets requests that have waited share a read: a thousand followers at the end of one
// list cost one statement when something happens. Only requests with the same address and the same
// permissions share.
type sharedReads struct {
	mu    sync.Mutex
	reads map[sharedKey]*sharedRead // in flight; others may still join
}

// sharedKey is everything that the result of a read depends on except the version.
type sharedKey struct {
	workspaceID string
	permissions access.Permissions
	path, query string
}

func sharedKeyOf(q *request) sharedKey {
	return sharedKey{q.key.WorkspaceID, q.key.Permissions, q.http.URL.EscapedPath(), q.http.URL.RawQuery}
}

// sharedRead is one read in flight.
type sharedRead struct {
	done    chan struct{} // closed when the result is known
	joined  int           // requests that share it; guarded by sharedReads.mu until it has ended
	found   bool          // there is a result: body and version are what answerWith got
	body    []byte
	version version
	rows    int
	index   int64 // answer.Writer.EventIndex
	lacks   bool  // outcome.lacks
	newer   bool
	err     error // why there is no result; nil without found: try again
}

// postponed returns nil for a temporary error, which does not end a wait. When the wait ends, the
// answer is the page that was read before it.
func postponed(err error) error {
	if errors.Is(err, errBehind) || problemOf(err).Status == http.StatusServiceUnavailable {
		return nil
	}
	return err
}

func newSharedReads() *sharedReads { return &sharedReads{reads: map[sharedKey]*sharedRead{}} }

// read reads for a request that has waited for a change, or joins another request's read. It
// answers the request or leaves it with an empty page. moved is the new visible position.
func (s *sharedReads) read(q *request, moved int64) error {
	key := sharedKeyOf(q)
	for {
		read, first := s.join(key)
		if first {
			return s.lead(q, key, read, moved)
		}
		select {
		case <-read.done:
		case <-q.Done():
			return postponed(q.readError(context.Cause(q)))
		}
		switch {
		case read.err != nil:
			return postponed(read.err)
		// A tree may lag behind moved, however often it is read.
		case read.found && (read.version.position >= moved || q.endpoint.OfTree()) && q.wait.accepts(read.version):
			q.wait.empty, q.wait.newer, q.rows, q.out.EventIndex, q.lacks = nil, read.newer, read.rows, read.index, read.lacks
			return q.answerWith(read.body, read.version)
		}
		// The read had begun before the move, or is older than what this request has seen or
		// demands, or its request has gone.
	}
}

// accepts reports whether another request's read is enough for this one: it has reached what the
// request demands, and is no older than its empty page.
func (w *waiter) accepts(v version) bool {
	return w.reached(v) == nil && v.position >= w.empty.version.position
}

// join joins a read in flight, or begins one.
func (s *sharedReads) join(key sharedKey) (read *sharedRead, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if read = s.reads[key]; read != nil {
		read.joined++
		return read, false
	}
	read = &sharedRead{done: make(chan struct{})}
	s.reads[key] = read
	return read, true
}

// lead reads for this request and all that join.
func (s *sharedReads) lead(q *request, key sharedKey, read *sharedRead, moved int64) error {
	q.wait.shared = read
	defer func() {
		q.wait.shared = nil
		s.end(key, read, nil)
	}()
	empty := q.wait.empty
	q.wait.empty, q.wait.newer, q.rows = nil, false, 0
	err := readMoved(q, moved)
	if err == nil {
		return nil
	}
	if q.Err() == nil { // otherwise only this request's caller has gone
		s.end(key, read, func() { read.err = err })
	}
	q.wait.empty = empty
	return postponed(err)
}

// end stores the result with set and releases all requests that have joined. Only the first call
// has an effect. A nil set stores nothing.
func (s *sharedReads) end(key sharedKey, read *sharedRead, set func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads[key] != read {
		return
	}
	delete(s.reads, key)
	if set != nil {
		set()
	}
	close(read.done)
}

// share gives an answer to the requests that have joined.
func (s *sharedReads) share(q *request, body []byte, v version) {
	read := q.wait.shared
	if read == nil {
		return
	}
	s.end(sharedKeyOf(q), read, func() {
		if read.joined > 0 {
			read.found, read.body, read.version, read.rows, read.newer = true, append([]byte(nil), body...), v, q.rows, q.wait.newer
			read.index, read.lacks = q.out.EventIndex, q.lacks
		}
	})
}
