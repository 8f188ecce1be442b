package waiting

import "sync"

// Limits bound how many requests wait at the same time.
type Limits struct {
	Process           int // in all; an eighth is for workspaces of which no request waits
	HTTP1             int // of them, those that keep a connection for themselves; an eighth likewise
	PerWorkspace      int
	PerWorkspaceHTTP1 int // of them, those that keep a connection for themselves
	PerKey            int
}

// newcomers is the part of the places of the process that workspaces without a waiting request have for
// themselves: an eighth.
const newcomers = 8

// Bounds counts the requests that wait. Its methods may be called by any number of
// goroutines.
type Bounds struct {
	limits Limits

	mu              sync.Mutex
	open            int
	http1           int
	workspaces      map[string]int
	workspacesHTTP1 map[string]int
	keys            map[string]int
}

// NewBounds makes Bounds that nobody has used.
func NewBounds(limits Limits) *Bounds {
	return &Bounds{limits: limits, workspaces: map[string]int{}, workspacesHTTP1: map[string]int{}, keys: map[string]int{}}
}

// Open is how many requests wait.
func (b *Bounds) Open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}

// Enter counts a request that is about to wait; false: too many do already. The caller
// must call leave when it no longer waits; it may be called again.
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

// add counts. The caller holds mu.
func (b *Bounds) add(workspaceID, key string, http1 bool, n int) {
	b.open += n
	if http1 {
		b.http1 += n
		addTo(b.workspacesHTTP1, workspaceID, n)
	}
	addTo(b.workspaces, workspaceID, n)
	addTo(b.keys, key, n)
}

// addTo counts in a map that has no zeros.
func addTo(counts map[string]int, name string, n int) {
	if counts[name] += n; counts[name] == 0 {
		delete(counts, name)
	}
}
