package console

import (
	"net/http"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// lockTimeout is how long a statement of the console waits for a row that another
// transaction has locked. Somebody looks at a page that does not come meanwhile, and
// a connection is in use.
const lockTimeout = 5 * time.Second

// statementTimeout is how long a statement of the console may take: long enough for pages
// that read very much, well before the server gives up its answer (NewServer).
const statementTimeout = 20 * time.Second

// PoolSettings returns the run-time parameters for the connections of a Console and
// its stores.
func PoolSettings() map[string]string {
	return map[string]string{"lock_timeout": pg.Milliseconds(lockTimeout), "statement_timeout": pg.Milliseconds(statementTimeout)}
}

// changesAtOnce is how many changes of a workspace are made at the same time: a change
// may wait for a lock, with a connection that other workspaces need.
const changesAtOnce = 2

// changes makes the changes of each workspace, or its pages that read very much, wait for
// each other.
type changes struct {
	mu sync.Mutex
	of map[string]*workspaceChanges
}

type workspaceChanges struct {
	places chan struct{}
	users  int // requests that have a place or wait for one
}

// join returns the places of a workspace; leave must be called in the end.
func (c *changes) join(workspaceID string) (places chan struct{}, leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.of[workspaceID]
	if w == nil {
		w = &workspaceChanges{places: make(chan struct{}, changesAtOnce)}
		c.of[workspaceID] = w
	}
	w.users++
	return w.places, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if w.users--; w.users == 0 {
			delete(c.of, workspaceID)
		}
	}
}

// inTurn lets a request that changes something wait for its workspace's turn. It
// follows signedIn.
func (c *changes) inTurn(next http.Handler) http.Handler {
	taken := c.take(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		taken.ServeHTTP(w, r)
	})
}

// take lets every request wait for its workspace's turn. It follows signedIn.
func (c *changes) take(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		places, leave := c.join(web.From(w, r).Session.WorkspaceID)
		defer leave()
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			next.ServeHTTP(w, r)
		case <-r.Context().Done(): // the browser has gone away
		}
	})
}
