package eventlog

import (
	"context"
	"sync"
)

// dirtySet holds the workspaces that may have entries a consumer has not
// taken, the oldest first. A workspace is in it once. While a worker has it,
// a further mark is remembered and puts it back at the end: without that, an
// entry appended between the worker's read and its commit would wait for the
// next sweep.
type dirtySet struct {
	// ready holds one token while something is queued.
	ready chan struct{}

	mu    sync.Mutex
	known map[string]*dirtyWorkspace
	queue []*dirtyWorkspace
}

type dirtyWorkspace struct {
	id    string
	alone bool // to be claimed by itself, because it failed
	taken bool
	again bool
}

func newDirtySet() *dirtySet {
	return &dirtySet{ready: make(chan struct{}, 1), known: map[string]*dirtyWorkspace{}}
}

// mark queues workspaces; alone ones are claimed by themselves.
func (d *dirtySet) mark(ids []string, alone bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		w := d.known[id]
		if w == nil {
			w = &dirtyWorkspace{id: id}
			d.known[id] = w
			d.queue = append(d.queue, w)
		} else if w.taken {
			w.again = true
		}
		w.alone = w.alone || alone
	}
	d.signal()
}

func (d *dirtySet) signal() {
	if len(d.queue) == 0 {
		return
	}
	select {
	case d.ready <- struct{}{}:
	default:
	}
}

// take waits for queued workspaces and hands out the oldest, at most most of
// them, or one that is to be alone. It returns nothing when ctx has ended.
func (d *dirtySet) take(ctx context.Context, most int) (ids []string, alone bool) {
	for {
		select {
		case <-ctx.Done():
			return nil, false
		case <-d.ready:
		}
		if ids, alone := d.takeNow(most); len(ids) > 0 {
			return ids, alone
		}
	}
}

func (d *dirtySet) takeNow(most int) (ids []string, alone bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.queue) > 0 && len(ids) < most {
		w := d.queue[0]
		if w.alone && len(ids) > 0 {
			break
		}
		d.queue = d.queue[1:]
		w.taken = true
		ids = append(ids, w.id)
		if w.alone {
			alone = true
			break
		}
	}
	d.signal()
	return ids, alone
}

// done gives workspaces back; more says that they have further entries.
func (d *dirtySet) done(ids []string, more func(id string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		w := d.known[id]
		if !w.again && !more(id) {
			delete(d.known, id)
			continue
		}
		w.taken, w.again, w.alone = false, false, false
		d.queue = append(d.queue, w)
	}
	d.signal()
}

// failed gives workspaces back to be claimed again, each by itself.
func (d *dirtySet) failed(ids []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		w := d.known[id]
		w.taken, w.again, w.alone = false, false, true
		d.queue = append(d.queue, w)
	}
	d.signal()
}
