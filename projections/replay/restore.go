package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// NotSkippedError says that the entry at a position is not skipped.
type NotSkippedError struct {
	WorkspaceID string
	Position    int64
}

// Error names the workspace and the position.
func (e *NotSkippedError) Error() string {
	return fmt.Sprintf("the entry at position %d of %s is not skipped", e.Position, e.WorkspaceID)
}

// Restore applies a skipped entry after all. Later entries may depend on it, so Restore rebuilds
// the whole workspace with it, and deletes the skip in the same transaction. If the entry still
// cannot be folded or written, Restore returns an error and the entry stays skipped. The error is a
// *NotSkippedError if the entry is not skipped.
func (r *Replayer) Restore(ctx context.Context, workspaceID string, position int64) (Rebuilt, error) {
	list, err := r.sizes(ctx, workspaceID)
	if err != nil {
		return Rebuilt{}, err
	}
	var skipped bool
	err = r.cfg.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM log_skip WHERE workspace_id = $1 AND consumer = $2 AND position = $3)`,
		workspaceID, eventlog.ReadModels, position).Scan(&skipped)
	switch {
	case err != nil:
		return Rebuilt{}, fmt.Errorf("read whether position %d of %s is skipped: %w", position, workspaceID, err)
	case !skipped:
		return Rebuilt{}, &NotSkippedError{workspaceID, position}
	}
	b, err := r.rebuild(ctx, list[0], rebuildScope{restored: position})
	if err != nil {
		return Rebuilt{}, fmt.Errorf("restore position %d of %s: %w", position, workspaceID, err)
	}
	return b, nil
}

// deleteSkip deletes the skip of the entry at a position, in the transaction that writes its
// effect. The history of failures keeps that it was skipped, and why.
func (f *workspaceFold) deleteSkip(ctx context.Context, tx pgx.Tx, position int64) error {
	var (
		failed, reason string
		at             time.Time
	)
	err := tx.QueryRow(ctx, `DELETE FROM log_skip WHERE workspace_id = $1 AND consumer = $2 AND position = $3
		RETURNING error, reason, skipped_at`, f.workspaceID, eventlog.ReadModels, position).Scan(&failed, &reason, &at)
	if errors.Is(err, pgx.ErrNoRows) {
		return &NotSkippedError{f.workspaceID, position} // restored by another process meanwhile
	}
	if err != nil {
		return fmt.Errorf("delete the skip: %w", err)
	}
	now := f.cfg.Clock()
	text := fmt.Sprintf("%s; skipped on %s, because: %s; restored on %s",
		failed, domain.FormatTime(at.UTC()), reason, domain.FormatTime(now.UTC()))
	_, err = tx.Exec(ctx, `
		INSERT INTO log_failure (workspace_id, consumer, from_position, through_position, error_digest, error, times, first_at, last_at)
		VALUES ($1, $2, $3, $3, md5($4), $4, 1, $5, $6)
		ON CONFLICT (workspace_id, consumer, from_position, through_position, error_digest) DO NOTHING`,
		f.workspaceID, eventlog.ReadModels, position, text, at, now)
	if err != nil {
		return fmt.Errorf("record that the skip was deleted: %w", err)
	}
	return nil
}
