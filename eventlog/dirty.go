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
	// ready and readyForSolo hold one token while something is in queue or in solo.
	ready, readyForSolo chan struct{}

	mu    sync.Mutex
	known map[string]*dirtyWorkspace
	queue []*dirtyWorkspace // shared and isolated
	solo  []*dirtyWorkspace
}

// claiming is how a workspace is claimed next.
type claiming int

const (
	notAtAll claiming = iota // it has no more entries, as far as is known
	shared                   // together with others
	isolated                 // alone, because it is failing
	solo                     // alone, by the one worker for work that others must not wait for
)

type dirtyWorkspace struct {
	id     string
	how    claiming
	taken  bool // by a worker
	marked bool // again, while taken
}

func newDirtySet() *dirtySet {
	return &dirtySet{ready: make(chan struct{}, 1), readyForSolo: make(chan struct{}, 1), known: map[string]*dirtyWorkspace{}}
}

// mark queues workspaces, shared or isolated. Those that are queued for the solo
// worker stay there.
func (d *dirtySet) mark(ids []string, how claiming) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		w := d.known[id]
		if w == nil {
			w = &dirtyWorkspace{id: id}
			d.known[id] = w
			d.queue = append(d.queue, w)
		} else if w.taken {
			w.marked = true
		}
		w.how = max(w.how, how)
	}
	d.signal()
}

// signal puts the tokens. The caller holds mu.
func (d *dirtySet) signal() {
	if len(d.queue) > 0 {
		putToken(d.ready)
	}
	if len(d.solo) > 0 {
		putToken(d.readyForSolo)
	}
}

// take waits for queued workspaces and takes the oldest, at most most of them, or
// one that is isolated. It returns none when ctx has ended.
func (d *dirtySet) take(ctx context.Context, most int) (ids []string, how claiming) {
	for {
		select {
		case <-ctx.Done():
			return nil, notAtAll
		case <-d.ready:
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
	for len(d.queue) > 0 && len(ids) < most {
		w := d.queue[0]
		if w.how == isolated && len(ids) > 0 {
			break
		}
		d.queue = d.queue[1:]
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

// takeSolo waits for the next workspace of the solo worker; "" when ctx has ended.
func (d *dirtySet) takeSolo(ctx context.Context) string {
	for {
		select {
		case <-ctx.Done():
			return ""
		case <-d.readyForSolo:
		}
		d.mu.Lock()
		if len(d.solo) == 0 {
			d.mu.Unlock()
			continue
		}
		w := d.solo[0]
		d.solo = d.solo[1:]
		w.taken = true
		d.signal()
		d.mu.Unlock()
		return w.id
	}
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
		if how == solo {
			d.solo = append(d.solo, w)
		} else {
			d.queue = append(d.queue, w)
		}
	}
	d.signal()
}

// all is a next for done that is the same for every workspace.
func all(how claiming) func(string) claiming {
	return func(string) claiming { return how }
}
