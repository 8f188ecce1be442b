package waiting

import "sync"

// Limits are the most requests that may wait at the same time.
type Limits struct {
	Process           int // in all; an eighth is reserved for workspaces without a waiting request
	HTTP1             int // of these, over HTTP/1, where each holds a connection; an eighth is reserved likewise
	PerWorkspace      int
	PerWorkspaceHTTP1 int // of these, over HTTP/1
	PerKey            int
}

// newcomers says which part of the waits, one in so many, is reserved for workspaces without a
// waiting request.
const newcomers = 8

// Bounds counts waiting requests and enforces Limits. It is safe for concurrent use.
type Bounds struct {
	limits Limits

	mu              sync.Mutex
	open            int
	http1           int
	workspaces      map[string]int
	workspacesHTTP1 map[string]int
	keys            map[string]int
}

// NewBounds makes Bounds without waiting requests.
func NewBounds(limits Limits) *Bounds {
	return &Bounds{limits: limits, workspaces: map[string]int{}, workspacesHTTP1: map[string]int{}, keys: map[string]int{}}
}

// Open returns how many requests wait.
func (b *Bounds) Open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}

// Enter counts a request that is about to wait; false: too many wait already. The caller must call
// leave when the request no longer waits; calling it again does nothing.
func (b *Bounds) Enter(workspaceID, keyID string, http1 bool) (leave func(), ok bool) {
	key := workspaceID + " " + keyID
	b.mu.Lock()
	defer b.mu.Unlock()
	process, ofHTTP1 := b.limits.Process, b.limits.HTTP1
	if b.workspaces[workspaceID] > 0 {
		process -= process / newcomers
	}
	if b.workspacesHTTP1[workspaceID] > 0 {
		ofHTTP1 -= ofHTTP1 / newcomers
	}
	if b.open >= process || http1 && (b.http1 >= ofHTTP1 || b.workspacesHTTP1[workspaceID] >= b.limits.PerWorkspaceHTTP1) ||
		b.workspaces[workspaceID] >= b.limits.PerWorkspace || b.keys[key] >= b.limits.PerKey {
		return nil, false
	}
	b.add(workspaceID, key, http1, 1)
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.add(workspaceID, key, http1, -1)
	}), true
}

// add adds n to the counts of a request. The caller holds mu.
func (b *Bounds) add(workspaceID, key string, http1 bool, n int) {
	b.open += n
	if http1 {
		b.http1 += n
		addTo(b.workspacesHTTP1, workspaceID, n)
	}
	addTo(b.workspaces, workspaceID, n)
	addTo(b.keys, key, n)
}

// addTo adds n to a count, and deletes it at zero.
func addTo(counts map[string]int, name string, n int) {
	if counts[name] += n; counts[name] == 0 {
		delete(counts, name)
	}
}
