package eventlog

import (
	"context"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// DivergedError says that a workspace holds entries other than those being restored to it. The call
// restored nothing.
type DivergedError struct {
	WorkspaceID string
	Position    int64  // where the entry to be restored belongs
	ID          string // of that entry
}

// Error says what differs.
func (e *DivergedError) Error() string {
	return fmt.Sprintf("nothing was restored: workspace %s is not empty and does not hold the beginning of these entries; at position %d it has another one than %s",
		e.WorkspaceID, e.Position, e.ID)
}

// Restore appends entries of an export, with their ids and publish times. A workspace must be empty
// or hold the entries before them, and may hold some of them already. Publish times may be ahead of
// now. first gives, by workspace, the position that its first entry must have.
//
// It restores all entries or, on an error, none. The error is one of Append's or a *DivergedError.
func (l *Log) Restore(ctx context.Context, first map[string]int64, drafts ...domain.Draft) (receipts []Receipt, err error) {
	if len(drafts) == 0 {
		return nil, nil
	}
	if drafts, err = checked(drafts, true); err != nil {
		return nil, err
	}
	began := time.Now()
	defer func() { l.metrics.observe(ctx, callRestore, began, receipts, err) }()
	batches, err := group(drafts, "")
	if err != nil {
		return nil, err
	}
	receipts = make([]Receipt, len(drafts))
	err = l.appendSeveral(ctx, batches, appendMode{whole: true, restore: true}, func(b *draftBatch, result *appendResult) error {
		if err := result.fill(b, receipts); err != nil {
			return err
		}
		return b.restored(first[b.workspaceID], receipts)
	})
	if err != nil {
		return nil, err
	}
	for i := range batches {
		l.notify(TopicAppended, batches[i].workspaceID)
	}
	return receipts, nil
}

// restored checks that the entries of a batch are in the log as they are in the export: one after
// another from a position on, with the same publish times.
func (b *draftBatch) restored(first int64, receipts []Receipt) error {
	for i, id := range b.ids {
		want := first + int64(i)
		for _, index := range b.indexes[i] {
			r := &receipts[index]
			if r.Position != want || b.created[i] == nil || !r.CreatedAt.Equal(*b.created[i]) || len(b.indexes[i]) > 1 {
				return &DivergedError{WorkspaceID: b.workspaceID, Position: want, ID: id}
			}
		}
	}
	return nil
}
