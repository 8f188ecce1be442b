package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Append appends entries of any number of workspaces, all of them or, on an
// error, none. Entries of one workspace are appended in the order given.
// Entries that the log holds already are skipped and count as done.
//
// The error is a *RefusedError when the log refuses an entry. After any other
// error the entries may or may not have been appended: append them again,
// with the same ids.
func (l *Log) Append(ctx context.Context, drafts ...domain.Draft) ([]Receipt, error) {
	if len(drafts) == 0 {
		return nil, nil
	}
	drafts, err := checked(drafts)
	if err != nil {
		return nil, err
	}
	if len(drafts) == 1 {
		return l.appendSingle(ctx, &drafts[0])
	}
	batches, err := group(drafts)
	if err != nil {
		return nil, err
	}
	receipts := make([]Receipt, len(drafts))
	if len(batches) == 1 {
		err = l.appendBatch(ctx, &batches[0], receipts)
	} else {
		err = pg.InTx(ctx, l.pool, func(tx pgx.Tx) error { return l.appendInTx(ctx, tx, batches, receipts) })
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
// After a *RefusedError the transaction can go on; nothing of this call is in
// it. After any other error it has to be rolled back.
func (l *Log) AppendTx(ctx context.Context, tx pgx.Tx, drafts ...domain.Draft) ([]Receipt, error) {
	if len(drafts) == 0 {
		return nil, nil
	}
	drafts, err := checked(drafts)
	if err != nil {
		return nil, err
	}
	batches, err := group(drafts)
	if err != nil {
		return nil, err
	}
	receipts := make([]Receipt, len(drafts))
	// A savepoint: what a refused call did to its other workspaces must not be
	// committed by a caller that goes on.
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return l.appendInTx(ctx, tx, batches, receipts) })
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

// appendBatch appends to one workspace in one statement, which is a transaction.
func (l *Log) appendBatch(ctx context.Context, b *draftBatch, receipts []Receipt) error {
	result, err := scanAppendResult(l.pool.QueryRow(ctx, appendSQL, b.args(l.clock(), true)...))
	if err != nil {
		return fmt.Errorf("append to %s: %w", b.workspaceID, err)
	}
	return result.fill(b, receipts)
}

// appendInTx appends to several workspaces, in one round trip.
func (l *Log) appendInTx(ctx context.Context, tx pgx.Tx, batches []draftBatch, receipts []Receipt) error {
	var send pgx.Batch
	now := l.clock()
	for i := range batches {
		send.Queue(appendSQL, batches[i].args(now, true)...)
	}
	results := tx.SendBatch(ctx, &send)
	var refused *RefusedError
	for i := range batches {
		result, err := scanAppendResult(results.QueryRow())
		if err == nil {
			err = result.fill(&batches[i], receipts)
		}
		if r, ok := errors.AsType[*RefusedError](err); ok {
			refused = earlier(refused, r)
			continue
		}
		if err != nil {
			return errors.Join(fmt.Errorf("append to %s: %w", batches[i].workspaceID, err), results.Close())
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
