package eventlog

import (
	"context"
	"sync"
)

// dirtySet queues the workspaces that may have entries a consumer has not handled, oldest first. A
// workspace is in it once. If it is marked while a worker has it, it is queued again when the
// worker is done: otherwise an entry appended between the worker's read and its commit would wait
// for the next sweep.
type dirtySet struct {
	mu    sync.Mutex
	known map[string]*dirtyWorkspace

	queue            lane // shared and isolated
	solo, mass, long lane
}

// lane holds the workspaces that wait for the same workers, oldest first.
type lane struct {
	ready   chan struct{} // holds a token while something waits
	waiting []*dirtyWorkspace
}

// claiming is how a workspace is claimed next.
type claiming int

const (
	notAtAll claiming = iota // it has no more entries, as far as is known
	shared                   // together with others
	isolated                 // alone, because it is failing
	solo                     // alone, by the solo worker, so that most others do not wait for it
	mass                     // alone, by one of the workers for mass changes
	long                     // like mass, in a place for claims that take long
)

type dirtyWorkspace struct {
	id     string
	how    claiming
	taken  bool // by a worker
	marked bool // again, while taken
}

func newDirtySet() *dirtySet {
	newLane := func() lane { return lane{ready: make(chan struct{}, 1)} }
	return &dirtySet{queue: newLane(), solo: newLane(), mass: newLane(), long: newLane(), known: map[string]*dirtyWorkspace{}}
}

// laneOf returns the lane for a way of claiming.
func (d *dirtySet) laneOf(how claiming) *lane {
	switch how {
	case solo:
		return &d.solo
	case mass:
		return &d.mass
	case long:
		return &d.long
	default:
		return &d.queue
	}
}

// mark queues workspaces. A workspace that already waits stays in its lane.
func (d *dirtySet) mark(ids []string, how claiming) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		w := d.known[id]
		if w == nil {
			w = &dirtyWorkspace{id: id}
			d.known[id] = w
			l := d.laneOf(how)
			l.waiting = append(l.waiting, w)
		} else if w.taken {
			w.marked = true
		}
		w.how = max(w.how, how)
	}
	d.signal()
}

// signal puts a token into each lane that is not empty. The caller holds mu.
func (d *dirtySet) signal() {
	for _, l := range []*lane{&d.queue, &d.solo, &d.mass, &d.long} {
		if len(l.waiting) > 0 {
			putToken(l.ready)
		}
	}
}

// take waits for queued workspaces and takes the oldest: up to most of them, or a single isolated
// one. It returns none when ctx has ended.
func (d *dirtySet) take(ctx context.Context, most int) (ids []string, how claiming) {
	for {
		select {
		case <-ctx.Done():
			return nil, notAtAll
		case <-d.queue.ready:
		}
		if ids, how := d.takeNow(most); len(ids) > 0 {
			return ids, how
		}
	}
}

func (d *dirtySet) takeNow(most int) (ids []string, how claiming) {
	d.mu.Lock()
	defer d.mu.Unlock()
	how = shared
	for len(d.queue.waiting) > 0 && len(ids) < most {
		w := d.queue.waiting[0]
		if w.how == isolated && len(ids) > 0 {
			break
		}
		d.queue.waiting = d.queue.waiting[1:]
		w.taken = true
		ids = append(ids, w.id)
		if w.how == isolated {
			how = isolated
			break
		}
	}
	d.signal()
	return ids, how
}

// takeOne waits for the next workspace in the lane for how and takes it; "" when ctx has ended.
func (d *dirtySet) takeOne(ctx context.Context, how claiming) string {
	l := d.laneOf(how)
	for {
		select {
		case <-ctx.Done():
			return ""
		case <-l.ready:
		}
		if id := d.takeOneNow(l); id != "" {
			return id
		}
	}
}

func (d *dirtySet) takeOneNow(l *lane) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(l.waiting) == 0 {
		return ""
	}
	w := l.waiting[0]
	l.waiting = l.waiting[1:]
	w.taken = true
	d.signal()
	return w.id
}

// waits reports whether a workspace waits in the lane for how.
func (d *dirtySet) waits(how claiming) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.laneOf(how).waiting) > 0
}

// done gives back workspaces that a worker took; next says how each is claimed next.
func (d *dirtySet) done(ids []string, next func(id string) claiming) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		w := d.known[id]
		how := next(id)
		if how == notAtAll {
			if !w.marked {
				delete(d.known, id)
				continue
			}
			how = shared
		}
		w.taken, w.marked, w.how = false, false, how
		l := d.laneOf(how)
		l.waiting = append(l.waiting, w)
	}
	d.signal()
}

// all returns a next function for done that claims every workspace in the same way.
func all(how claiming) func(string) claiming {
	return func(string) claiming { return how }
}
