package eventlog

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// pendingAppend is a single append on its way to a shared transaction.
type pendingAppend struct {
	draft   domain.Draft
	traced  string // its span; empty: not recorded
	state   appendState
	receipt Receipt
	err     error
}

// appendState is what a batch did with an append.
type appendState int

const (
	settled       appendState = iota // it has its receipt or error
	leftOut                          // it still has to be made
	leftOutAbsent                    // the same, because its workspace does not exist yet
	leftOutMoving                    // the same, because a move has closed its workspace for some seconds
)

const (
	// groupCommitTimeout bounds one shared transaction.
	groupCommitTimeout = 30 * time.Second
	// groupCommitMax is the maximum number of entries in one.
	groupCommitMax = 512
)

// newBatcher makes a batcher of single appends: while one transaction is in flight, new appends
// wait and share the next one. A lone append pays nothing for it; a busy workspace pays one commit
// for many entries.
func (l *Log) newBatcher() *flow.Coalescer[*pendingAppend] {
	return flow.NewCoalescer(flow.CoalescerConfig[*pendingAppend]{Run: l.commitGroup, Timeout: groupCommitTimeout, Max: groupCommitMax})
}

// appendSingle appends one entry, in a transaction shared with other workspaces. If its workspace
// is not free at once, it shares a transaction only with appends to the same workspace.
func (l *Log) appendSingle(ctx context.Context, d *domain.Draft) ([]Receipt, error) {
	p := &pendingAppend{draft: *d, traced: l.recorded(ctx)}
	if !l.lockQueues.has(d.WorkspaceID) {
		batcher := l.batchers[maphash.String(l.seed, d.WorkspaceID)%uint64(len(l.batchers))]
		if err := batcher.Do(ctx, p); err != nil {
			return nil, singleError(d.WorkspaceID, err)
		}
		if p.state == settled {
			return p.result()
		}
	}
	if err := l.appendLocked(ctx, p); err != nil {
		return nil, err
	}
	return p.result()
}

// singleError returns the error of an append that its batch did not finish.
func singleError(workspaceID string, err error) error {
	if _, panicked := errors.AsType[*flow.PanicError](err); panicked {
		err = fmt.Errorf("%w: %w", flow.ErrOutcomeUnknown, err)
	}
	return fmt.Errorf("append to %s: %w", workspaceID, err)
}

func (p *pendingAppend) result() ([]Receipt, error) {
	if p.err != nil {
		return nil, p.err
	}
	return []Receipt{p.receipt}, nil
}

// commitGroup appends entries of independent callers without waiting for a lock: neither a refused
// entry nor a locked workspace affects the others.
func (l *Log) commitGroup(ctx context.Context, group []*pendingAppend) {
	statements := byWorkspace(group)
	if len(statements) == 1 {
		l.commitAlone(ctx, statements[0], 0)
		return
	}
	err := pg.Again(ctx, func() error { return l.commitTogether(ctx, statements) })
	if err == nil {
		return
	}
	_, clock := errors.AsType[*ClockError](err)
	for _, s := range statements {
		s.fail(err)
		if !clock && ctx.Err() == nil {
			// One workspace may have caused the error, so the callers try each workspace alone. If
			// entries were committed after all, the log recognizes their ids.
			s.set(leftOut)
		}
	}
}

// appendStatement is one call of log_append: pending appends to one workspace.
type appendStatement struct {
	batch   draftBatch
	ids     map[string]struct{} // of the entries
	appends []*pendingAppend
}

// byWorkspace makes one statement per workspace, in the order of workspace ids. A second entry with
// the same id goes into another statement, so that the database treats it as a later append.
func byWorkspace(group []*pendingAppend) []*appendStatement {
	var statements []*appendStatement
	of := make(map[string][]*appendStatement, len(group))
	find := func(p *pendingAppend) *appendStatement {
		for _, s := range of[p.draft.WorkspaceID] {
			if _, held := s.ids[p.draft.ID]; !held {
				return s
			}
		}
		s := &appendStatement{batch: draftBatch{workspaceID: p.draft.WorkspaceID}, ids: map[string]struct{}{}}
		of[p.draft.WorkspaceID] = append(of[p.draft.WorkspaceID], s)
		statements = append(statements, s)
		return s
	}
	for _, p := range group {
		s := find(p)
		s.ids[p.draft.ID] = struct{}{}
		s.batch.add(&p.draft, p.traced)
		s.appends = append(s.appends, p)
	}
	slices.SortStableFunc(statements, func(a, b *appendStatement) int {
		return strings.Compare(a.batch.workspaceID, b.batch.workspaceID)
	})
	return statements
}

// commitAlone appends to one workspace, and waits at most wait if it is locked.
func (l *Log) commitAlone(ctx context.Context, s *appendStatement, wait time.Duration) {
	result, err := l.runAppend(ctx, l.pool, &s.batch, appendMode{wait: wait})
	if unavailable, is := errors.AsType[*unavailableError](err); is {
		s.leaveOut(unavailable)
		return
	}
	if err != nil {
		s.fail(err)
	} else {
		s.finish(result)
	}
	l.notify(TopicAppended, s.batch.workspaceID)
}

// appendTogetherSQL is log_append for several workspaces: one statement, and so one transaction and
// one round trip. All entries are in the same arrays; each workspace has the elements from low to
// high. It waits for no lock.
const (
	appendTogetherSQL       = appendEach + inOrder
	appendTogetherTracedSQL = appendEach + traceEach + inOrder

	appendEach = `
	SELECT a.outcomes, a.positions, a.times
	  FROM unnest($2::text[], $3::integer[], $4::integer[]) WITH ORDINALITY AS c (workspace_id, low, high, n)
	 CROSS JOIN LATERAL log_append(c.workspace_id, $1, NULL, false,
	       ($5::text[])[c.low:c.high], ($6::text[])[c.low:c.high], ($7::timestamptz[])[c.low:c.high],
	       ($8::text[])[c.low:c.high], ($9::text[])[c.low:c.high], ($10::text[])[c.low:c.high], ($11::bytea[])[c.low:c.high], 0) AS a`
	traceEach = `
	 CROSS JOIN LATERAL log_trace(c.workspace_id, ($5::text[])[c.low:c.high], ($12::text[])[c.low:c.high], a.outcomes) AS t`
	inOrder = `
	 ORDER BY c.n`
)

// commitTogether appends to several workspaces in one transaction. On an error nothing was
// appended, or the outcome of the commit is unknown.
func (l *Log) commitTogether(ctx context.Context, statements []*appendStatement) error {
	var (
		all        draftBatch
		workspaces []string
		low, high  []int32
	)
	for _, s := range statements {
		workspaces = append(workspaces, s.batch.workspaceID)
		low = append(low, int32(len(all.ids)+1))
		all.join(&s.batch)
		high = append(high, int32(len(all.ids)))
	}
	sql, args := appendTogetherSQL, []any{l.clock(), workspaces, low, high, all.ids, all.types, all.created, all.opens, all.publics, all.values, all.salts}
	if all.traced() {
		sql, args = appendTogetherTracedSQL, append(args, all.traces)
	}
	rows, err := l.pool.Query(ctx, sql, args...)
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	results, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (appendResult, error) { return scanAppendResult(row) })
	if err == nil && len(results) != len(statements) {
		err = fmt.Errorf("%d results for %s", len(results), texts.Count(len(statements), "workspace", "workspaces"))
	}
	if err != nil {
		return AppendError(workspaces[0], err)
	}
	for i, s := range statements {
		if unavailable, is := errors.AsType[*unavailableError](attempted(s.batch.workspaceID, results[i], nil)); is {
			s.leaveOut(unavailable)
			continue
		}
		s.finish(results[i])
	}
	l.notify(TopicAppended, workspaces...)
	return nil
}

// finish gives every append of the statement its receipt or refusal.
func (s *appendStatement) finish(result appendResult) {
	s.set(settled)
	for i, p := range s.appends {
		p.receipt, p.err = result.receipt(&s.batch, i)
		if r, refused := errors.AsType[*RefusedError](p.err); refused {
			r.Index = 0
		}
	}
}

// fail gives every append of the statement an error.
func (s *appendStatement) fail(err error) {
	s.set(settled)
	for _, p := range s.appends {
		p.err = err
	}
}

// leaveOut marks the appends of the statement as still to be made.
func (s *appendStatement) leaveOut(reason *unavailableError) {
	switch {
	case reason.absent:
		s.set(leftOutAbsent)
	case reason.moving:
		s.set(leftOutMoving)
	default:
		s.set(leftOut)
	}
}

func (s *appendStatement) set(state appendState) {
	for _, p := range s.appends {
		p.state = state
	}
}

// lockQueues has a queue for each workspace whose lock single appends wait for.
type lockQueues struct {
	mu sync.Mutex
	of map[string]*lockQueue
}

// lockQueue collects the single appends to one workspace while it is locked.
type lockQueue struct {
	*flow.Coalescer[*pendingAppend]
	users int // appends in it
}

func (h *lockQueues) has(workspaceID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of[workspaceID] != nil
}

// join returns the queue of a workspace and makes it with create if there is none. The caller must
// call leave when it is done.
func (h *lockQueues) join(workspaceID string, create func() *flow.Coalescer[*pendingAppend]) (q *lockQueue, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	q = h.of[workspaceID]
	if q == nil {
		q = &lockQueue{Coalescer: create()}
		h.of[workspaceID] = q
	}
	q.users++
	return q, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if q.users--; q.users == 0 {
			delete(h.of, workspaceID)
		}
	}
}

// appendLocked makes a single append through the queue of its workspace. Each batch of the queue
// makes only one attempt, so that a caller whose lock timeout is over soon gets its error.
func (l *Log) appendLocked(ctx context.Context, p *pendingAppend) error {
	workspaceID := p.draft.WorkspaceID
	queue, leave := l.lockQueues.join(workspaceID, func() *flow.Coalescer[*pendingAppend] {
		return flow.NewCoalescer(flow.CoalescerConfig[*pendingAppend]{Run: l.commitLocked, Timeout: groupCommitTimeout, Max: groupCommitMax})
	})
	defer leave()
	ctx, cancel := context.WithTimeoutCause(ctx, l.lockTimeout, errLockTimeout)
	defer cancel()
	for {
		err := queue.Do(ctx, p)
		switch {
		case flow.OutcomeUnknown(err):
			return singleError(workspaceID, err)
		case err != nil:
			return p.refusal(err)
		case p.state == settled:
			return nil
		case ctx.Err() != nil:
			return p.refusal(context.Cause(ctx))
		}
	}
}

// commitLocked attempts the appends to one workspace once.
func (l *Log) commitLocked(ctx context.Context, group []*pendingAppend) {
	wait, release := l.lockSlots.take()
	hasSlot := wait > 0
	left, moving := false, false
	for _, s := range byWorkspace(group) {
		if s.appends[0].state == leftOutAbsent {
			wait = lockWait
		}
		l.commitAlone(ctx, s, wait)
		left = left || s.appends[0].state != settled
		moving = moving || s.appends[0].state == leftOutMoving
	}
	release()
	if moving || left && !hasSlot {
		flow.Sleep(ctx, lockPause)
	}
}

// refusal returns the error of an append that stops waiting; why is the reason.
func (p *pendingAppend) refusal(why error) error {
	return (&unavailableError{workspaceID: p.draft.WorkspaceID, moving: p.state == leftOutMoving}).refusal(why)
}
