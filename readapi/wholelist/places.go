package wholelist

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Places bounds how many whole lists are read at the same time, in all and for one workspace. No
// workspace can take all places, and none can keep them while another has nothing: the last place
// is for one that has none, and where all are taken, a list that has been read for long gives its
// place to one that has none.
type Places struct {
	total, each int
	grace       time.Duration // for which a list keeps its place
	yields      time.Duration // for which a list may take to give it up
	clock       func() time.Time

	mu     sync.Mutex
	free   chan struct{} // closed when a place becomes free, and made anew
	used   int
	usedBy map[string][]*place // by workspace, the oldest first; those that use some
}

// place is that of a list.
type place struct {
	since time.Time
	end   context.CancelCauseFunc
	ended bool
}

// ErrPlaceTaken ends a list whose place another workspace needs.
var ErrPlaceTaken = errors.New("the list was read for long, and its place is needed by a workspace that reads none")

// Full says why there is no place.
type Full int

// The reasons.
const (
	NotFull       Full = iota
	FullWorkspace      // the workspace has as many as it may have
	FullProcess        // all workspaces together have
)

// yields is how long a list may take to give up its place.
const yields = 5 * time.Second

// NewPlaces makes total places, each of them for one list, of which one workspace may have
// so many. A list keeps its place for grace, whoever else needs it.
func NewPlaces(total, each int, grace time.Duration) *Places {
	return &Places{
		total: max(1, total), each: max(1, each), grace: grace, yields: yields, clock: time.Now,
		free: make(chan struct{}), usedBy: map[string][]*place{},
	}
}

// Take takes a place. The list must be read with the context that it returns, and leave must be
// called when it has ended; it may be called again. Without a place leave is nil.
func (p *Places) Take(ctx context.Context, workspaceID string) (list context.Context, leave func(), full Full) {
	limited, cancel := context.WithTimeout(ctx, p.yields)
	defer cancel()
	asked := false // a list to give up its place
	for {
		list, leave, full, free, next := p.take(ctx, workspaceID, !asked)
		asked = asked || next
		if leave != nil || !asked {
			return list, leave, full
		}
		select {
		case <-free:
		case <-limited.Done():
			return ctx, nil, FullProcess
		}
	}
}

// take takes a place if there is one. With ask it has the list that has been read for longest give up
// its place, if the workspace has none.
func (p *Places) take(ctx context.Context, workspaceID string, ask bool) (list context.Context, leave func(), full Full, free <-chan struct{}, asked bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	mine := len(p.usedBy[workspaceID])
	switch {
	case mine >= p.each:
		return ctx, nil, FullWorkspace, nil, false
	case mine > 0 && p.used >= p.total-1:
		return ctx, nil, FullProcess, nil, false
	case p.used >= p.total:
		return ctx, nil, FullProcess, p.free, ask && p.endOldest()
	}
	list, end := context.WithCancelCause(ctx)
	taken := &place{since: p.clock(), end: end}
	p.used++
	p.usedBy[workspaceID] = append(p.usedBy[workspaceID], taken)
	return list, sync.OnceFunc(func() { p.leave(workspaceID, taken) }), NotFull, nil, false
}

// endOldest ends the list that has been read for longest, of the workspaces that read the most. False:
// none has been read for long. The caller holds mu.
func (p *Places) endOldest() bool {
	var oldest *place
	most, now := 0, p.clock()
	for _, list := range p.usedBy {
		for _, one := range list {
			if one.ended || now.Sub(one.since) < p.grace {
				continue
			}
			if oldest == nil || len(list) > most || len(list) == most && one.since.Before(oldest.since) {
				oldest, most = one, len(list)
			}
		}
	}
	if oldest == nil {
		return false
	}
	oldest.ended = true
	oldest.end(ErrPlaceTaken)
	return true
}

func (p *Places) leave(workspaceID string, left *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left.end(nil)
	p.used--
	list := p.usedBy[workspaceID]
	for i, one := range list {
		if one == left {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if p.usedBy[workspaceID] = list; len(list) == 0 {
		delete(p.usedBy, workspaceID)
	}
	close(p.free)
	p.free = make(chan struct{})
}

// Used is how many lists are being read.
func (p *Places) Used() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}
