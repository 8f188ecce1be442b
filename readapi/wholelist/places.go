package wholelist

import "sync"

// Places bounds how many whole lists are read at the same time, in all and for one
// workspace. Nobody waits for a place: a list may take minutes.
type Places struct {
	total, each int

	mu     sync.Mutex
	used   int
	usedBy map[string]int // by workspace; those that use some
}

// Full says why there is no place.
type Full int

// The reasons.
const (
	NotFull       Full = iota
	FullWorkspace      // the workspace has as many as it may have
	FullProcess        // all workspaces together have
)

// NewPlaces makes total places, each of them for one list, of which one workspace may have
// so many.
func NewPlaces(total, each int) *Places {
	return &Places{total: max(1, total), each: max(1, each), usedBy: map[string]int{}}
}

// Take takes a place. The caller must call leave when its list has ended; it may be called
// again. Without a place leave is nil.
func (p *Places) Take(workspaceID string) (leave func(), full Full) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.usedBy[workspaceID] >= p.each:
		return nil, FullWorkspace
	case p.used >= p.total:
		return nil, FullProcess
	}
	p.used++
	p.usedBy[workspaceID]++
	return sync.OnceFunc(func() { p.leave(workspaceID) }), NotFull
}

func (p *Places) leave(workspaceID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used--
	if p.usedBy[workspaceID]--; p.usedBy[workspaceID] == 0 {
		delete(p.usedBy, workspaceID)
	}
}

// Used is how many lists are being read.
func (p *Places) Used() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}
