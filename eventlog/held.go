package eventlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/batch"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// A workspace whose head another transaction has locked must not hold up others:
// neither those that share a batcher with it, nor those that need a connection of
// the same pool. So no transaction that others depend on waits for a lock. An append
// that finds its workspace held waits apart, on a part of the connections, and
// fails when its own time is over.

const (
	// defaultHeldTimeout is the default of Config.HeldTimeout; log_publish has the
	// same.
	defaultHeldTimeout = 10 * time.Second

	// lockTurn is how long one statement waits for a workspace, before others have
	// their turn.
	lockTurn = 200 * time.Millisecond
	// severalLockTurn is the same for one workspace of an append to several: those
	// that are locked already wait, too.
	severalLockTurn = 50 * time.Millisecond

	// heldPause is the pause of an append that has no turn.
	heldPause = 50 * time.Millisecond
)

// errWaited is why an append stops waiting.
var errWaited = errors.New("it waited as long as it may")

// notFreeError is the error of an attempt that found a workspace held.
type notFreeError struct {
	workspaceID string
	absent      bool // it does not exist: creating it may mean to wait
	moving      bool // its log is closed for a move, for seconds
}

// Error names the workspace.
func (e *notFreeError) Error() string { return "workspace " + e.workspaceID + " is held" }

// over is the error of an append that has waited as long as it may.
func (e *notFreeError) over(why error) error {
	if e.moving {
		return &MovedError{WorkspaceID: e.workspaceID}
	}
	return &HeldError{WorkspaceID: e.workspaceID, Err: why}
}

// turns bounds how many connections wait for workspaces at once.
type turns chan struct{}

// take returns how long a statement may wait for a workspace: not at all when all
// turns are taken. The turn ends with giveBack.
func (t turns) take() (wait time.Duration, giveBack func()) {
	select {
	case t <- struct{}{}:
		return lockTurn, func() { <-t }
	default:
		return 0, func() {}
	}
}

// whenFree makes attempts until one does not find a workspace held, the time is
// over, or ctx has ended. An attempt holds nothing when it has ended.
func (l *Log) whenFree(ctx context.Context, attempt func(wait time.Duration) error) error {
	deadline := time.Now().Add(l.heldTimeout)
	for absent := false; ; {
		wait, giveBack := l.turns.take()
		turn := wait > 0
		if absent {
			wait = lockTurn // nearly always nobody else creates it
		}
		err := attempt(wait)
		giveBack()
		held, notFree := errors.AsType[*notFreeError](err)
		switch {
		case !notFree:
			return err
		case ctx.Err() != nil:
			return held.over(context.Cause(ctx))
		case time.Now().After(deadline):
			return held.over(errWaited)
		case held.moving, !turn && !held.absent:
			flow.Pause(ctx, heldPause)
		}
		absent = held.absent
	}
}

// appendBatch appends to one workspace in one statement, which is a transaction.
func (l *Log) appendBatch(ctx context.Context, b *draftBatch, receipts []Receipt, mode appendMode) error {
	return l.whenFree(ctx, func(wait time.Duration) error {
		mode.wait = wait
		result, err := l.runAppend(ctx, l.pool, b, mode)
		if err != nil {
			return err
		}
		return result.fill(b, receipts)
	})
}

// querier is a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// runAppend appends a batch. The error is a *notFreeError when the workspace is held.
func (l *Log) runAppend(ctx context.Context, db querier, b *draftBatch, mode appendMode) (result appendResult, err error) {
	err = pg.Again(ctx, func() error {
		sql, args := b.statement(l.clock(), mode)
		result, err = scanAppendResult(db.QueryRow(ctx, sql, args...))
		return err
	})
	return result, attempted(b.workspaceID, result, err)
}

// attempted is the error of an attempt to append to a workspace.
func attempted(workspaceID string, result appendResult, err error) error {
	switch {
	case pg.Locked(err), err == nil && result.outcomes == nil:
		return &notFreeError{workspaceID: workspaceID}
	case err == nil && len(result.outcomes) == 0:
		return &notFreeError{workspaceID: workspaceID, absent: true}
	case err != nil:
		err = AppendError(workspaceID, err)
		if m, ok := errors.AsType[*MovedError](err); ok && !m.Away {
			return &notFreeError{workspaceID: workspaceID, moving: true}
		}
		return fmt.Errorf("append to %s: %w", workspaceID, err)
	}
	return nil
}

// appendSeveral appends to several workspaces in one transaction. When one of them
// is held, the transaction ends, so that the others are free, and the held one is
// waited for alone before all are locked again.
func (l *Log) appendSeveral(ctx context.Context, batches []draftBatch, mode appendMode, done func(*draftBatch, *appendResult) error) error {
	var held *notFreeError
	return l.whenFree(ctx, func(wait time.Duration) error {
		if held != nil && !held.absent {
			if err := l.awaitHead(ctx, held.workspaceID, wait); err != nil {
				return err
			}
		}
		err := pg.Again(ctx, func() error {
			return pg.InTx(ctx, l.pool, func(tx pgx.Tx) error {
				mode.wait = min(wait, severalLockTurn)
				return l.appendInTx(ctx, tx, batches, mode, done)
			})
		})
		held, _ = errors.AsType[*notFreeError](err)
		return err
	})
}

// awaitHead waits until a workspace is not held. The error is a *notFreeError when it
// still is.
func (l *Log) awaitHead(ctx context.Context, workspaceID string, wait time.Duration) error {
	err := pg.InLimitedTx(ctx, l.pool, max(wait, time.Millisecond), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM log_head WHERE workspace_id = $1 FOR UPDATE`, workspaceID); err != nil {
			return fmt.Errorf("lock its head: %w", err)
		}
		return nil
	})
	switch {
	case pg.Locked(err):
		return &notFreeError{workspaceID: workspaceID}
	case pg.RolledBack(err): // at a stricter level: who held it has changed it, and is done
		return nil
	case err != nil:
		return fmt.Errorf("wait for workspace %s: %w", workspaceID, err)
	}
	return nil
}

// heldQueues has a queue for each workspace that single appends wait for.
type heldQueues struct {
	mu sync.Mutex
	of map[string]*heldQueue
}

// heldQueue collects the single appends to one workspace while it is held.
type heldQueue struct {
	*batch.Coalescer[*pendingAppend]
	users int // appends in it
}

func (h *heldQueues) has(workspaceID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of[workspaceID] != nil
}

// join returns the queue of a workspace, made by create if there is none; leave
// must be called in the end.
func (h *heldQueues) join(workspaceID string, create func() *batch.Coalescer[*pendingAppend]) (q *heldQueue, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	q = h.of[workspaceID]
	if q == nil {
		q = &heldQueue{Coalescer: create()}
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

// appendHeld makes a single append in the queue of its workspace. A batch of the
// queue ends after one attempt, so that a caller whose time is over is answered
// soon.
func (l *Log) appendHeld(ctx context.Context, p *pendingAppend) error {
	workspaceID := p.draft.WorkspaceID
	queue, leave := l.held.join(workspaceID, func() *batch.Coalescer[*pendingAppend] {
		return batch.New(batch.Config[*pendingAppend]{Run: l.commitHeld, Timeout: groupCommitTimeout, Max: groupCommitMax})
	})
	defer leave()
	ctx, cancel := context.WithTimeoutCause(ctx, l.heldTimeout, errWaited)
	defer cancel()
	for {
		err := queue.Do(ctx, p)
		switch {
		case batch.Unknown(err):
			return singleError(workspaceID, err)
		case err != nil:
			return p.over(err)
		case p.state == settled:
			return nil
		case ctx.Err() != nil:
			return p.over(context.Cause(ctx))
		}
	}
}

// commitHeld makes one attempt at the appends to one workspace.
func (l *Log) commitHeld(ctx context.Context, group []*pendingAppend) {
	wait, giveBack := l.turns.take()
	turn := wait > 0
	left, moving := false, false
	for _, s := range byWorkspace(group) {
		if s.appends[0].state == leftOutAbsent {
			wait = lockTurn
		}
		l.commitAlone(ctx, s, wait)
		left = left || s.appends[0].state != settled
		moving = moving || s.appends[0].state == leftOutMoving
	}
	giveBack()
	if moving || left && !turn {
		flow.Pause(ctx, heldPause)
	}
}

// over is the error of an append that has waited as long as it may.
func (p *pendingAppend) over(why error) error {
	return (&notFreeError{workspaceID: p.draft.WorkspaceID, moving: p.state == leftOutMoving}).over(why)
}
