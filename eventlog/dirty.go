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
	// ready holds one token while something is queued.
	ready chan struct{}

	mu    sync.Mutex
	known map[string]*dirtyWorkspace
	queue []*dirtyWorkspace
}

type dirtyWorkspace struct {
	id       string
	isolated bool // it is failing, and is claimed alone
	taken    bool // by a worker
	marked   bool // again, while taken
}

func newDirtySet() *dirtySet {
	return &dirtySet{ready: make(chan struct{}, 1), known: map[string]*dirtyWorkspace{}}
}

// mark queues workspaces; isolated ones are claimed alone.
func (d *dirtySet) mark(ids []string, isolated bool) {
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
		w.isolated = w.isolated || isolated
	}
	d.signal()
}

// signal puts the token of ready. The caller holds mu.
func (d *dirtySet) signal() {
	if len(d.queue) > 0 {
		putToken(d.ready)
	}
}

// take waits for queued workspaces and takes the oldest, at most most of them, or
// one that is isolated. It returns none when ctx has ended.
func (d *dirtySet) take(ctx context.Context, most int) (ids []string, isolated bool) {
	for {
		select {
		case <-ctx.Done():
			return nil, false
		case <-d.ready:
		}
		if ids, isolated := d.takeNow(most); len(ids) > 0 {
			return ids, isolated
		}
	}
}

func (d *dirtySet) takeNow(most int) (ids []string, isolated bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.queue) > 0 && len(ids) < most {
		w := d.queue[0]
		if w.isolated && len(ids) > 0 {
			break
		}
		d.queue = d.queue[1:]
		w.taken = true
		ids = append(ids, w.id)
		if w.isolated {
			isolated = true
			break
		}
	}
	d.signal()
	return ids, isolated
}

// done ends the taking of workspaces; more says which of them have further
// entries.
func (d *dirtySet) done(ids []string, more func(id string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		w := d.known[id]
		if !w.marked && !more(id) {
			delete(d.known, id)
			continue
		}
		d.requeue(w, false)
	}
	d.signal()
}

// isolate ends the taking of workspaces, and queues each to be claimed alone.
func (d *dirtySet) isolate(ids []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		d.requeue(d.known[id], true)
	}
	d.signal()
}

// requeue puts a workspace that was taken at the end. The caller holds mu.
func (d *dirtySet) requeue(w *dirtyWorkspace, isolated bool) {
	w.taken, w.marked, w.isolated = false, false, isolated
	d.queue = append(d.queue, w)
}
