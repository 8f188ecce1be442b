package waiting

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// Config configures a Watcher. Fields without a default are required.
type Config struct {
	// Notifier tells which workspaces have moved.
	Notifier *eventlog.Notifier

	// Read reads the visible positions of workspaces. A workspace that does not exist is not in the
	// result.
	Read func(ctx context.Context, workspaceIDs []string) (map[string]int64, error)

	// ReadTimeout bounds one read.
	ReadTimeout time.Duration

	// Sweep is how often positions that requests must reach are read without a notification. Every
	// fifth sweep reads all others, too. Default: a second.
	Sweep time.Duration

	Logger *slog.Logger
}

// Watcher wakes waiting requests. Its methods may be called by any number of goroutines.
type Watcher struct {
	cfg     Config
	drained chan struct{} // closed by Drain
	drain   func()
	asked   chan struct{} // holds a token while a workspace must be read

	mu         sync.Mutex
	workspaces map[string]*workspace // workspaces with waiting requests
	unread     map[string]struct{}   // those of workspaces that must be read
	reads      uint64                // how many have begun
}

// workspace is a workspace with waiting requests.
type workspace struct {
	waits  map[*wait]struct{}
	urgent int // how many waits must reach a position
}

// wait is one waiting request.
type wait struct {
	low, high int64 // it waits while low <= position < high
	urgent    bool
	joined    uint64     // how many reads had begun before it
	woken     chan int64 // gets the position that ends the wait; holds one
}

// ErrDrained says that the process is about to stop: a request that waits must be answered now.
var ErrDrained = errors.New("the process is about to stop")

// New makes a Watcher. It wakes nobody unless Run runs.
func New(cfg Config) *Watcher {
	cfg.Sweep = cmp.Or(cfg.Sweep, time.Second)
	w := &Watcher{
		cfg: cfg, drained: make(chan struct{}), asked: make(chan struct{}, 1),
		workspaces: map[string]*workspace{}, unread: map[string]struct{}{},
	}
	w.drain = sync.OnceFunc(func() { close(w.drained) })
	return w
}

// Drain ends all waits now. Every later wait ends at once.
func (w *Watcher) Drain() { w.drain() }

// Draining reports whether Drain was called.
func (w *Watcher) Draining() bool {
	select {
	case <-w.drained:
		return true
	default:
		return false
	}
}

// Moved waits until the visible position of a workspace differs from position, and returns it. It
// reads the position after the call began, so it does not miss a move just before. The error is
// ErrDrained or the cause of ctx.
func (w *Watcher) Moved(ctx context.Context, workspaceID string, position int64) (int64, error) {
	return w.await(ctx, workspaceID, &wait{low: position, high: position + 1})
}

// Reached waits until the visible position of a workspace is position or higher, and
// returns it. The errors are those of Moved.
func (w *Watcher) Reached(ctx context.Context, workspaceID string, position int64) (int64, error) {
	return w.await(ctx, workspaceID, &wait{high: position, urgent: true})
}

// Pause waits for a time. The errors are those of Moved.
func (w *Watcher) Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-w.drained:
		return ErrDrained
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *Watcher) await(ctx context.Context, workspaceID string, a *wait) (int64, error) {
	if w.Draining() {
		return 0, ErrDrained
	}
	a.woken = make(chan int64, 1)
	w.join(workspaceID, a)
	defer w.leave(workspaceID, a)
	select {
	case position := <-a.woken:
		return position, nil
	case <-w.drained:
		return 0, ErrDrained
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func (w *Watcher) join(workspaceID string, a *wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.workspaces[workspaceID]
	if at == nil {
		at = &workspace{waits: map[*wait]struct{}{}}
		w.workspaces[workspaceID] = at
	}
	a.joined = w.reads
	at.waits[a] = struct{}{}
	if a.urgent {
		at.urgent++
	}
	w.ask(workspaceID)
}

func (w *Watcher) leave(workspaceID string, a *wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.workspaces[workspaceID]
	delete(at.waits, a)
	if a.urgent {
		at.urgent--
	}
	if len(at.waits) == 0 {
		delete(w.workspaces, workspaceID)
		delete(w.unread, workspaceID)
	}
}

// ask schedules a read of a workspace if requests wait for it. The caller holds mu.
func (w *Watcher) ask(workspaceID string) {
	if w.workspaces[workspaceID] == nil {
		return
	}
	w.unread[workspaceID] = struct{}{}
	select {
	case w.asked <- struct{}{}:
	default:
	}
}

// askAll schedules reads of all workspaces with waiting requests, or only of the urgent ones.
func (w *Watcher) askAll(urgentOnly bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, at := range w.workspaces {
		if at.urgent > 0 || !urgentOnly {
			w.ask(id)
		}
	}
}

const (
	// sweepAll makes every fifth sweep read all positions.
	sweepAll = 5

	// readPause is the time between two reads, in which notifications collect. It bounds the
	// statements of a process that follows a log with thousands of entries a second.
	readPause = 2 * time.Millisecond
)

// Run wakes waiting requests until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	moved, unsubscribe := w.cfg.Notifier.Subscribe(eventlog.TopicProjected)
	defer unsubscribe()
	sweep := time.NewTicker(w.cfg.Sweep)
	defer sweep.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	var ready <-chan struct{} // nil while the pause lasts
	outage := flow.Outage{
		Logger: w.cfg.Logger, Failing: "cannot read visible positions; waiting requests wait until this works again",
		Working: "visible positions can be read again",
	}
	swept := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-moved.C:
			w.notified(moved.Take())
		case <-sweep.C:
			swept++
			w.askAll(swept%sweepAll != 0)
		case <-pause.C:
			ready = w.asked
		case <-ready:
			w.read(ctx, &outage)
			ready = nil
			pause.Reset(readPause)
		}
	}
}

// notified schedules reads of ids, or of all workspaces with waiting requests if all is true.
func (w *Watcher) notified(ids []string, all bool) {
	if all {
		w.askAll(false)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		w.ask(id)
	}
}

// read reads the positions of the scheduled workspaces and wakes requests. If it fails, the next
// sweep or notification reads again.
func (w *Watcher) read(ctx context.Context, outage *flow.Outage) {
	w.mu.Lock()
	ids := slices.Collect(maps.Keys(w.unread))
	clear(w.unread)
	w.reads++
	begun := w.reads
	w.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, w.cfg.ReadTimeout)
	defer cancel()
	positions, err := w.cfg.Read(limited, ids)
	if ctx.Err() == nil {
		outage.LogTransition(ctx, err)
	}
	if err == nil {
		w.wake(positions, begun)
	}
}

// wake wakes the requests whose wait the positions end. begun is the number of the read: a request
// that joined after it began may know a later position, so it waits for the next read.
func (w *Watcher) wake(positions map[string]int64, begun uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, position := range positions {
		at := w.workspaces[id]
		if at == nil {
			continue
		}
		for a := range at.waits {
			if a.joined >= begun || a.low <= position && position < a.high {
				continue
			}
			select {
			case a.woken <- position:
			default: // it was woken and has not left yet
			}
		}
	}
}
