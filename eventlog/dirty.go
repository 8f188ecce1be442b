package eventlog

import (
	"context"
	"sync"
)

// dirtySet holds the workspaces that may have entries a consumer has not handled,
// the oldest first. A workspace is in it once. A mark that comes while a worker has
// the workspace is remembered and puts it back at the end: otherwise an entry that
// is appended between the worker's read and its commit would wait for the next
// sweep.
type dirtySet struct {
	mu    sync.Mutex
	known map[string]*dirtyWorkspace

	queue            lane // shared and isolated
	solo, mass, long lane
}

// lane is workspaces that wait for the same workers, the longest first.
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
	solo                     // alone, by the one worker for work that most others must not wait for
	mass                     // alone, by one of the workers for mass changes
	long                     // by one of these in a place for claims that take long
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

// laneOf is where a workspace waits.
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

// mark queues workspaces. A workspace that waits for the solo worker or for a worker of mass
// changes stays there.
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

// signal puts the tokens. The caller holds mu.
func (d *dirtySet) signal() {
	for _, l := range []*lane{&d.queue, &d.solo, &d.mass, &d.long} {
		if len(l.waiting) > 0 {
			putToken(l.ready)
		}
	}
}

// take waits for queued workspaces and takes the oldest, at most most of them, or
// one that is isolated. It returns none when ctx has ended.
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

// takeOne waits for the next workspace of a worker for solo claims or mass changes; "" when
// ctx has ended.
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

// waits reports whether a workspace waits that is claimed so.
func (d *dirtySet) waits(how claiming) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.laneOf(how).waiting) > 0
}

// done ends the taking of workspaces; next says how each is claimed next.
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

// all is a next for done that is the same for every workspace.
func all(how claiming) func(string) claiming {
	return func(string) claiming { return how }
}
