package rollup

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

const (
	// writeEvery is how often counts are written.
	writeEvery = 5 * time.Second
	// writeTimeout bounds one call of Write.
	writeTimeout = 10 * time.Second
	// lockTimeout is how long a statement waits for a row that another transaction has locked.
	// After that, the counts of its workspace wait for the next write.
	lockTimeout = 200 * time.Millisecond
	// maxCells bounds the counts that wait to be written, at some 250 bytes each. When it is
	// reached, nothing more is counted until the next write.
	maxCells = 50_000
)

// Writer counts requests and attempts in memory; Start writes them. It is safe for
// concurrent use.
type Writer struct {
	pool   pg.DB
	logger *slog.Logger

	mu      sync.Mutex
	waiting map[string]*cells // by workspace; guarded by mu
	size    int               // of all cells that wait; guarded by mu
	dropped int64             // guarded by mu

	// apart holds the workspaces that had a locked row in the last write. Only the goroutine that
	// writes uses it.
	apart map[string]bool
}

// NewWriter makes a Writer. Without Start it writes nothing.
func NewWriter(pool pg.DB, logger *slog.Logger) *Writer {
	return &Writer{pool: pool, logger: logger, waiting: map[string]*cells{}, apart: map[string]bool{}}
}

// AddRequest counts a request. It ignores one without a workspace.
func (w *Writer) AddRequest(r *Request) {
	if r.WorkspaceID != "" {
		w.add(r.WorkspaceID, func(c *cells) { c.addRequest(r) })
	}
}

// AddAttempt counts an attempt to deliver.
func (w *Writer) AddAttempt(a *Attempt) {
	w.add(a.WorkspaceID, func(c *cells) { c.addAttempt(a) })
}

func (w *Writer) add(workspaceID string, count func(*cells)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.size >= maxCells {
		w.dropped++
		return
	}
	c := w.waiting[workspaceID]
	if c == nil {
		c = newCells()
		w.waiting[workspaceID] = c
	}
	before := c.size()
	count(c)
	w.size += c.size() - before
}

// Dropped returns how many requests and attempts were not counted because too many counts waited to
// be written.
func (w *Writer) Dropped() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped
}

// Start writes counts every few seconds until end is called. end writes the remaining counts and
// then returns.
func (w *Writer) Start() (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { w.run(ctx) })
	return func() { stop(); group.Wait() }
}

func (w *Writer) run(ctx context.Context) {
	outage := &flow.Outage{
		Logger:  w.logger,
		Failing: "counts for the console's charts cannot be written; they are written later",
		Working: "counts for the console's charts are written again",
	}
	ticker := time.NewTicker(writeEvery)
	defer ticker.Stop()
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
		case <-ticker.C:
		}
		outage.LogTransition(ctx, w.Write(context.WithoutCancel(ctx)), "not_counted", w.Dropped())
	}
}

// Write writes the waiting counts. Counts that cannot be written now stay for the next call; the
// error says why.
func (w *Writer) Write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	taken := w.take()
	together := map[string]*cells{}
	var alone []string
	for id, c := range taken {
		if w.apart[id] {
			alone = append(alone, id)
		} else {
			together[id] = c
		}
	}
	clear(w.apart)
	err := write(ctx, w.pool, together)
	if pg.Locked(err) { // a row of one workspace is locked, so write each workspace alone
		alone, err = slices.AppendSeq(alone, maps.Keys(together)), nil
	} else if err != nil {
		w.putBack(together)
	}
	for _, id := range alone {
		one := map[string]*cells{id: taken[id]}
		if failed := write(ctx, w.pool, one); failed != nil {
			if pg.Locked(failed) {
				w.apart[id] = true
			}
			w.putBack(one)
			err = failed
		}
	}
	return err
}

// take returns the waiting counts and leaves none.
func (w *Writer) take() map[string]*cells {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.waiting
	w.waiting, w.size = map[string]*cells{}, 0
	return taken
}

// putBack keeps counts that could not be written, and adds those counted meanwhile.
func (w *Writer) putBack(taken map[string]*cells) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, c := range taken {
		if newer := w.waiting[id]; newer != nil {
			w.size -= newer.size()
			c.merge(newer)
		}
		w.waiting[id] = c
		w.size += c.size()
	}
}
