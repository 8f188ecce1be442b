package answer

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ListPlaces limits how many whole lists are read at the same time, in all and for one workspace. A
// list uses one place. The last free place is reserved for a workspace that has none. If all places
// are taken, such a workspace gets the place of a list that has been read for long. So no workspace
// can take all places, or keep them while another has none.
type ListPlaces struct {
	total, each int
	grace       time.Duration // how long a list keeps its place in any case
	yields      time.Duration // how long a list may take to give its place up
	clock       func() time.Time

	mu     sync.Mutex
	free   chan struct{} // closed and replaced when a place becomes free
	used   int
	usedBy map[string][]*listPlace // by workspace, oldest first; only workspaces that use some
}

// listPlace is the place of one list.
type listPlace struct {
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
	FullWorkspace      // the workspace reads as many lists as it may
	FullProcess        // no place is left for the workspace
)

// yields is how long a list may take to give up its place.
const yields = 5 * time.Second

// NewListPlaces makes places for total lists at once, and for at most each lists of one workspace. A
// list keeps its place for grace, even if another workspace needs it.
func NewListPlaces(total, each int, grace time.Duration) *ListPlaces {
	return &ListPlaces{
		total: max(1, total), each: max(1, each), grace: grace, yields: yields, clock: time.Now,
		free: make(chan struct{}), usedBy: map[string][]*listPlace{},
	}
}

// Take takes a place, and may wait some seconds for another list to give one up. The list must be
// read with the context that Take returns. leave must be called when the list has ended, and may be
// called again. Without a place leave is nil, and full says why.
func (p *ListPlaces) Take(ctx context.Context, workspaceID string) (list context.Context, leave func(), full Full) {
	limited, cancel := context.WithTimeout(ctx, p.yields)
	defer cancel()
	asked := false // whether a list was asked to give up its place
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

// take takes a place if there is one. Otherwise, if the workspace has none and ask is true, it ends
// another list to free a place; asked reports whether it did.
func (p *ListPlaces) take(ctx context.Context, workspaceID string, ask bool) (list context.Context, leave func(), full Full, free <-chan struct{}, asked bool) {
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
	taken := &listPlace{since: p.clock(), end: end}
	p.used++
	p.usedBy[workspaceID] = append(p.usedBy[workspaceID], taken)
	return list, sync.OnceFunc(func() { p.leave(workspaceID, taken) }), NotFull, nil, false
}

// endOldest ends the longest-running list of the workspace that reads the most. It returns false if
// no list has been read for long. The caller holds mu.
func (p *ListPlaces) endOldest() bool {
	var oldest *listPlace
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

func (p *ListPlaces) leave(workspaceID string, left *listPlace) {
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

// Used returns how many lists are being read.
func (p *ListPlaces) Used() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}
