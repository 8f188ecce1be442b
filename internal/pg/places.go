package pg

import (
	"context"
	"slices"
	"sync"
	"time"
)

// growthPause is the time between two attempts to open one more connection, after the server
// has refused one.
const growthPause = 250 * time.Millisecond

// places are the connections that a pool may have. Who wants a connection takes a place
// first, so that all waiting is here, where it is fair: each group of users always finds
// the places that are reserved for it, however many the others want, and what becomes free
// beyond those goes to the group that uses the fewest.
type places struct {
	mu      sync.Mutex
	most    int // connections of the pool
	open    int // places that may be taken: most, or fewer while the server refuses connections
	taken   int
	groups  []*group
	turns   uint64 // that were waited for so far
	growing bool   // a timer is to open one more place
	closed  bool
}

// group has the places of some users of a pool.
type group struct {
	places      *places
	name        string
	long        bool // one use may take minutes
	least, most int  // places that are reserved for it, and its limit; least is at most most

	// guarded by the places' mu
	used    int
	waiting []*turn // longest waiting first
	waits   Waits
}

// turn is somebody who waits for a place.
type turn struct {
	number uint64
	in     chan struct{} // closed when the place is taken
}

// Waits says how the connections of a share were waited for.
type Waits struct {
	Waiting int           // for a connection, now
	Count   uint64        // how often somebody waited
	Time    time.Duration // how long all together
	Refused uint64        // new connections that the server refused because there are too many
}

func newPlaces(most int) *places { return &places{most: most, open: most} }

func (p *places) add(g *group) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g.places = p
	p.groups = append(p.groups, g)
}

// take takes a place of a group, and waits for it until ctx ends. First puts the caller
// before all others of its group.
func (p *places) take(ctx context.Context, g *group, first bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(g.waiting) == 0 && p.fits(g) {
		p.count(g, 1)
		return nil
	}
	p.turns++
	t := &turn{number: p.turns, in: make(chan struct{})}
	if first {
		g.waiting = slices.Insert(g.waiting, 0, t)
	} else {
		g.waiting = append(g.waiting, t)
	}
	began := time.Now() // not of an injected clock: it measures
	p.mu.Unlock()
	select {
	case <-t.in:
	case <-ctx.Done():
	}
	p.mu.Lock()
	g.waits.Count++
	g.waits.Time += time.Since(began)
	if i := slices.Index(g.waiting, t); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
		return ctx.Err()
	}
	return nil
}

// give gives a place back.
func (p *places) give(g *group) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(g, -1)
	p.letIn()
}

// count needs the lock, as all that follow.
func (p *places) count(g *group, n int) {
	g.used += n
	p.taken += n
}

// fits reports whether a group may take a place now: it takes none that is reserved for
// another, unless the server allows so few connections that nothing can be reserved, and uses
// that take minutes get at most half of those that are not reserved.
func (p *places) fits(g *group) bool {
	if g.used >= g.most || p.taken >= p.open {
		return false
	}
	if g.used < g.least {
		return true
	}
	free, least, long := p.open-p.taken, 0, 0
	for _, other := range p.groups {
		free -= max(0, other.least-other.used)
		least += other.least
		if other.long {
			long += max(0, other.used-other.least)
		}
	}
	if p.open < p.most && p.open <= least {
		return true
	}
	return free > 0 && (!g.long || long < max(1, (p.open-least)/2))
}

// letIn gives free places to those who wait.
func (p *places) letIn() {
	for {
		var next *group
		for _, g := range p.groups {
			if len(g.waiting) > 0 && p.fits(g) && (next == nil || before(g, next)) {
				next = g
			}
		}
		if next == nil {
			return
		}
		p.count(next, 1)
		close(next.waiting[0].in)
		next.waiting = slices.Delete(next.waiting, 0, 1)
	}
}

// before reports whether the next place is for a rather than for b: for whoever uses fewer
// beyond its reserved ones, and of two with as many, for the one that has waited longer.
func before(a, b *group) bool {
	if over, other := a.used-a.least, b.used-b.least; over != other {
		return over < other
	}
	return a.waiting[0].number < b.waiting[0].number
}

// refused notes that the server allows no more connections than there are. Until one more
// can be opened, there are no more places than connections, so that who takes one finds a
// connection that is free.
func (p *places) refused(g *group, connections int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g.waits.Refused++
	p.open = max(1, min(p.most, connections))
	p.growLater()
	p.letIn() // where nothing can be reserved any more
}

// growLater opens one more place after a pause, for somebody who then tries again to open a
// connection.
func (p *places) growLater() {
	if p.growing || p.open >= p.most || p.closed {
		return
	}
	p.growing = true
	time.AfterFunc(growthPause, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.growing = false
		p.open = min(p.open+1, p.most)
		p.growLater()
		p.letIn()
	})
}

// close ends the timer after its next turn. The pool closes after it.
func (p *places) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

func (p *places) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// waitsOf returns the waits of a group.
func (p *places) waitsOf(g *group) Waits {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := g.waits
	w.Waiting = len(g.waiting)
	return w
}

// usedBy is how many places a group has taken.
func (p *places) usedBy(g *group) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return g.used
}
