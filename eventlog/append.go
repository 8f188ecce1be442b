package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Append appends entries of any number of workspaces, all of them or, on an
// error, none. Entries of one workspace are appended in the order given.
// Entries that the log holds already are skipped and count as done.
//
// The error is a *RefusedError when the log refuses an entry, a *HeldError when
// another transaction holds a workspace for longer than Config.HeldTimeout, a
// *MovedError when it has moved to another database, or is being moved for longer than
// that, and a *ClockError when the clock is wrong. Unless Certain reports it, the entries may
// or may not have been appended after an error: append them again, with the same
// ids.
func (l *Log) Append(ctx context.Context, drafts ...domain.Draft) (receipts []Receipt, err error) {
	if len(drafts) == 0 {
		return nil, nil
	}
	if drafts, err = checked(drafts); err != nil {
		return nil, err
	}
	ctx, end := l.trace(ctx, drafts)
	began := time.Now()
	defer func() {
		l.metrics.observe(ctx, callAppend, began, receipts, err)
		end(err)
	}()
	if len(drafts) == 1 {
		return l.appendSingle(ctx, &drafts[0])
	}
	batches, err := group(drafts, l.recorded(ctx))
	if err != nil {
		return nil, err
	}
	receipts = make([]Receipt, len(drafts))
	if len(batches) == 1 {
		err = l.appendBatch(ctx, &batches[0], receipts, appendMode{whole: true})
	} else {
		err = l.appendSeveral(ctx, batches, appendMode{whole: true}, fillIn(receipts))
	}
	if err != nil {
		return nil, err
	}
	for i := range batches {
		l.notify(TopicAppended, batches[i].workspaceID)
	}
	return receipts, nil
}

// AppendTx is Append inside the caller's transaction: the entries exist if and
// only if it commits. Their workspaces stay locked for other appends until then,
// so keep the transaction short. The commit notifies subscribers.
//
// A call waits up to Config.HeldTimeout for a workspace that another transaction
// holds, and 200 ms in all once the transaction itself holds another one, for which
// others wait.
//
// After a *RefusedError or a *HeldError the transaction can go on; nothing of this
// call is in it. After any other error it has to be rolled back.
func (l *Log) AppendTx(ctx context.Context, tx pgx.Tx, drafts ...domain.Draft) (receipts []Receipt, err error) {
	if len(drafts) == 0 {
		return nil, nil
	}
	if drafts, err = checked(drafts); err != nil {
		return nil, err
	}
	ctx, end := l.trace(ctx, drafts)
	began := time.Now()
	defer func() {
		l.metrics.observe(ctx, callAppendTx, began, receipts, err)
		end(err)
	}()
	batches, err := group(drafts, l.recorded(ctx))
	if err != nil {
		return nil, err
	}
	receipts = make([]Receipt, len(drafts))
	// A savepoint: what a refused call did to its other workspaces must not be
	// committed by a caller that goes on.
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		return l.appendInTx(ctx, tx, batches, appendMode{whole: true, wait: l.heldTimeout}, fillIn(receipts))
	})
	if held, notFree := errors.AsType[*notFreeError](err); notFree {
		return nil, held.over(errWaited)
	}
	if err != nil {
		return nil, err
	}
	// Only the database knows when the caller commits, so it sends the NOTIFY.
	// That costs a lock in the commit, which Append avoids.
	for i := range batches {
		if err := notifyInTx(ctx, tx, TopicAppended, batches[i].workspaceID); err != nil {
			return nil, err
		}
	}
	return receipts, nil
}

// fillIn is for appendInTx: it writes the receipts of a batch.
func fillIn(receipts []Receipt) func(*draftBatch, *appendResult) error {
	return func(b *draftBatch, result *appendResult) error { return result.fill(b, receipts) }
}

// appendInTx appends to several workspaces, in one round trip, and calls done with
// each result. The error is a *notFreeError when one of them was held for too long.
func (l *Log) appendInTx(ctx context.Context, tx pgx.Tx, batches []draftBatch, mode appendMode, done func(*draftBatch, *appendResult) error) error {
	var send pgx.Batch
	now := l.clock()
	for i := range batches {
		sql, args := batches[i].statement(now, mode)
		send.Queue(sql, args...)
	}
	results := tx.SendBatch(ctx, &send)
	var refused *RefusedError
	for i := range batches {
		result, err := scanAppendResult(results.QueryRow())
		if err = attempted(batches[i].workspaceID, result, err); err == nil {
			err = done(&batches[i], &result)
		}
		if r, ok := errors.AsType[*RefusedError](err); ok {
			refused = earlier(refused, r)
			continue
		}
		if err != nil {
			_ = results.Close() // it has the same error
			return err
		}
	}
	if err := results.Close(); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	return orNil(refused)
}

// fill writes the receipts of a batch. The error is its first refusal, in the
// caller's own order.
func (r *appendResult) fill(b *draftBatch, receipts []Receipt) error {
	var refused *RefusedError
	for i := range b.ids {
		receipt, err := r.receipt(b, i)
		if refusal, ok := errors.AsType[*RefusedError](err); ok {
			refusal.Index = b.indexes[i][0]
			refused = earlier(refused, refusal)
			continue
		}
		if err != nil {
			return err
		}
		for n, index := range b.indexes[i] {
			receipts[index] = receipt
			receipts[index].Skipped = receipt.Skipped || n > 0
		}
	}
	return orNil(refused)
}

// earlier is the refusal of the earlier draft of a call; nil: none.
func earlier(a, b *RefusedError) *RefusedError {
	if a == nil || b != nil && b.Index < a.Index {
		return b
	}
	return a
}

// orNil keeps a nil pointer from becoming an error that is not nil.
func orNil(refused *RefusedError) error {
	if refused == nil {
		return nil
	}
	return refused
}
