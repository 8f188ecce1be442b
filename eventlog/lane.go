package eventlog

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// A lane coalesces single appends: while one transaction is under way, those
// that come wait together and make the next one. A lone append pays nothing
// for it; a hot workspace pays one commit for many entries.
//
// There is no goroutine of its own: the caller who finds the lane free becomes
// its driver, takes whatever waits, and hands the lane on.
type lane struct {
	log *Log
	max int

	mu      sync.Mutex
	driven  bool
	waiting []*single
	last    int // how many the last transaction took
}

// single is one append on its way.
type single struct {
	draft   domain.Draft
	receipt Receipt
	err     error
	settled bool          // receipt or err is set; the driver's until done
	done    chan struct{} // closed when receipt and err are set
	lead    chan struct{} // closed to make the waiting caller the driver
}

// flushPatience bounds one coalesced transaction. It is not tied to the
// context of the caller who happens to drive: others depend on it.
const flushPatience = 30 * time.Second

var errPanicked = errors.New("the transaction it was part of ended in a panic")

//nolint:gochecknoglobals // a seed, so that the lanes differ between processes
var laneSeed = maphash.MakeSeed()

func (l *Log) lane(workspaceID string) *lane {
	return l.lanes[maphash.String(laneSeed, workspaceID)%uint64(len(l.lanes))]
}

func (n *lane) append(ctx context.Context, d domain.Draft) ([]Receipt, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("append to %s: not begun: %w", d.WorkspaceID, context.Cause(ctx))
	}
	s := &single{draft: d, done: make(chan struct{}), lead: make(chan struct{})}
	n.mu.Lock()
	n.waiting = append(n.waiting, s)
	drive := !n.driven
	n.driven = true
	n.mu.Unlock()
	if !drive {
		select {
		case <-s.done:
			return s.result()
		case <-s.lead:
		case <-ctx.Done():
			return n.abandon(ctx, s)
		}
	}
	n.drive(ctx)
	<-s.done // the driver's own entry is always in what it took
	return s.result()
}

func (s *single) result() ([]Receipt, error) {
	if s.err != nil {
		return nil, s.err
	}
	return []Receipt{s.receipt}, nil
}

// abandon leaves a lane whose turn did not come in time. If the entry was
// already taken, its fate is the driver's, and the caller hears that it is
// unknown.
func (n *lane) abandon(ctx context.Context, s *single) ([]Receipt, error) {
	n.mu.Lock()
	i := slices.Index(n.waiting, s)
	if i >= 0 {
		n.waiting = slices.Delete(n.waiting, i, i+1)
	}
	led := false
	select {
	case <-s.lead:
		led = true
	default:
	}
	n.mu.Unlock()
	if led {
		n.handOn()
	}
	if i >= 0 {
		return nil, fmt.Errorf("append to %s: not begun: %w", s.draft.WorkspaceID, context.Cause(ctx))
	}
	select {
	case <-s.done:
		return s.result()
	default:
		return nil, fmt.Errorf("append to %s: outcome unknown: %w", s.draft.WorkspaceID, context.Cause(ctx))
	}
}

// drive appends what waits, then hands the lane on.
func (n *lane) drive(ctx context.Context) {
	n.gather()
	n.mu.Lock()
	taken := n.waiting
	if len(taken) > n.max {
		taken = taken[:n.max:n.max]
	}
	n.waiting = slices.Clone(n.waiting[len(taken):])
	n.last = len(taken)
	n.mu.Unlock()

	flushCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushPatience)
	defer cancel()
	// Also when the clock or the announcer panics: that is the driver's to
	// hear of, and must not leave the others waiting for ever.
	defer n.handOn()
	defer finish(taken)
	n.log.flush(flushCtx, taken)
}

// gatherYields bounds how long a driver lets others come; each is some
// microseconds at most.
const gatherYields = 16

// gather lets the callers of a busy lane come. When a transaction ends, all
// whom it held return at once, and most come with their next entry; without
// this the first of them would go alone, and the others wait for its commit.
func (n *lane) gather() {
	for range gatherYields {
		n.mu.Lock()
		enough := len(n.waiting) > n.last/2
		n.mu.Unlock()
		if enough {
			return
		}
		runtime.Gosched()
	}
}

// finish lets the callers go; those that a panic kept from an answer hear
// that their outcome is unknown.
func finish(taken []*single) {
	for _, s := range taken {
		if !s.settled {
			s.err = fmt.Errorf("append to %s: outcome unknown: %w", s.draft.WorkspaceID, errPanicked)
		}
		close(s.done)
	}
}

// handOn makes the first who waits the driver, or leaves the lane free.
func (n *lane) handOn() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) == 0 {
		n.driven = false
		return
	}
	close(n.waiting[0].lead)
}

// flush appends entries that have nothing to do with each other: one refused
// entry leaves the others alone.
func (l *Log) flush(ctx context.Context, taken []*single) {
	calls := byWorkspace(taken)
	if len(calls) == 1 {
		l.flushCall(ctx, calls[0])
		return
	}
	if err := l.flushTogether(ctx, calls); err != nil {
		// Something failed that is not one entry's fault, or may be: each
		// workspace for itself, so that one cannot hold back the others. What
		// was committed after all is recognized by its id.
		for _, c := range calls {
			l.flushCall(ctx, c)
		}
	}
}

// call is one statement: the singles of one workspace.
type call struct {
	batch   draftBatch
	ids     map[string]struct{} // of the entries
	singles []*single
}

// byWorkspace makes one call a workspace, in the order of their ids. A second
// entry of the same id in the same round goes into a further call, so that
// the database judges it as if it came later.
func byWorkspace(taken []*single) []*call {
	var calls []*call
	of := make(map[string][]*call, len(taken))
	find := func(s *single) *call {
		for _, c := range of[s.draft.WorkspaceID] {
			if _, held := c.ids[s.draft.ID]; !held {
				return c
			}
		}
		c := &call{batch: draftBatch{workspaceID: s.draft.WorkspaceID}, ids: map[string]struct{}{}}
		of[s.draft.WorkspaceID] = append(of[s.draft.WorkspaceID], c)
		calls = append(calls, c)
		return c
	}
	for _, s := range taken {
		c := find(s)
		c.ids[s.draft.ID] = struct{}{}
		c.batch.add(&s.draft)
		c.singles = append(c.singles, s)
	}
	slices.SortStableFunc(calls, func(a, b *call) int {
		switch {
		case a.batch.workspaceID < b.batch.workspaceID:
			return -1
		case a.batch.workspaceID > b.batch.workspaceID:
			return 1
		}
		return 0
	})
	return calls
}

func (l *Log) flushCall(ctx context.Context, c *call) {
	ans, err := scanAnswer(l.pool.QueryRow(ctx, appendSQL, c.batch.args(l.clock(), nil, false)...))
	c.settle(ans, err)
	l.notify(TopicAppended, c.batch.workspaceID)
}

// appendTogetherSQL is log_append for several workspaces: one statement, and so
// one transaction and one round trip. The entries of all stand in the same
// arrays; each workspace has the elements from low to high.
const appendTogetherSQL = `
	SELECT a.head, a.outcomes, a.positions, a.times
	  FROM unnest($2::text[], $3::integer[], $4::integer[]) WITH ORDINALITY AS c (workspace_id, low, high, n)
	 CROSS JOIN LATERAL log_append(c.workspace_id, $1, NULL, false,
	       ($5::text[])[c.low:c.high], ($6::text[])[c.low:c.high], ($7::timestamptz[])[c.low:c.high],
	       ($8::text[])[c.low:c.high], ($9::text[])[c.low:c.high]) AS a
	 ORDER BY c.n`

// flushTogether appends to several workspaces in one transaction. On an error
// none is appended, or the commit's outcome is unknown.
func (l *Log) flushTogether(ctx context.Context, calls []*call) error {
	var (
		all        draftBatch
		workspaces []string
		low, high  []int32
	)
	for _, c := range calls {
		workspaces = append(workspaces, c.batch.workspaceID)
		low = append(low, int32(len(all.ids)+1))
		all.join(&c.batch)
		high = append(high, int32(len(all.ids)))
	}
	rows, err := l.pool.Query(ctx, appendTogetherSQL, l.clock(), workspaces, low, high, all.ids, all.types, all.created, all.datas, all.publics)
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	answers, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (answer, error) { return scanAnswer(row) })
	if err == nil && len(answers) != len(calls) {
		err = fmt.Errorf("%d answers to %d appends", len(answers), len(calls))
	}
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	for i, c := range calls {
		c.settle(answers[i], nil)
	}
	l.notify(TopicAppended, workspaces...)
	return nil
}

// settle gives every single of the call its receipt or error.
func (c *call) settle(a answer, err error) {
	for i, s := range c.singles {
		s.settled = true
		if err != nil {
			s.err = fmt.Errorf("append to %s: %w", c.batch.workspaceID, err)
			continue
		}
		s.receipt, s.err = a.receipt(&c.batch, i)
		if r, refused := s.err.(*RefusedError); refused { //nolint:errorlint // receipt returns it bare
			r.Index = 0
		}
	}
}
