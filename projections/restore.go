package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// NotSkippedError says that the entry at a position was not passed over.
type NotSkippedError struct {
	WorkspaceID string
	Position    int64
}

// Error names the workspace and the position.
func (e *NotSkippedError) Error() string {
	return fmt.Sprintf("the entry at position %d of %s was not passed over", e.Position, e.WorkspaceID)
}

// Restore gives an entry that was passed over its effect after all. Entries
// after it may have depended on it, so the whole workspace is rebuilt with it,
// and the skip is taken back in the same transaction: an entry that still
// cannot be folded or written is an error, and stays passed over. The error is
// a *NotSkippedError when it was not.
func (r *Replay) Restore(ctx context.Context, workspaceID string, position int64) (Rebuilt, error) {
	list, err := r.sizes(ctx, workspaceID)
	if err != nil {
		return Rebuilt{}, err
	}
	var skipped bool
	err = r.cfg.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM log_skip WHERE workspace_id = $1 AND consumer = $2 AND position = $3)`,
		workspaceID, eventlog.ReadModels, position).Scan(&skipped)
	switch {
	case err != nil:
		return Rebuilt{}, fmt.Errorf("read whether position %d of %s was passed over: %w", position, workspaceID, err)
	case !skipped:
		return Rebuilt{}, &NotSkippedError{workspaceID, position}
	}
	var b Rebuilt
	err = r.within(ctx, list[0], func(ctx context.Context, w workspaceSize) (err error) {
		b, err = r.rebuild(ctx, w, rebuildScope{asked: func(*sheet) bool { return true }, all: true, restore: position})
		return err
	})
	if err != nil {
		return Rebuilt{}, fmt.Errorf("give position %d of %s its effect: %w", position, workspaceID, err)
	}
	return b, nil
}

// takeBackSkip ends the skip of the entry that is restored, in the transaction
// that writes its effect. That there was one, and why, goes into the
// workspace's history of failures.
func (r *refold) takeBackSkip(ctx context.Context, tx pgx.Tx) error {
	if r.restored == 0 {
		return nil
	}
	var (
		failed, reason string
		at             time.Time
	)
	rows, err := tx.Query(ctx, `DELETE FROM log_skip WHERE workspace_id = $1 AND consumer = $2 AND position = $3
		RETURNING error, reason, skipped_at`, r.workspaceID, eventlog.ReadModels, r.restored)
	if err != nil {
		return fmt.Errorf("take back the skip: %w", err)
	}
	tag, err := pgx.ForEachRow(rows, []any{&failed, &reason, &at}, func() error { return nil })
	switch {
	case err != nil:
		return fmt.Errorf("take back the skip: %w", err)
	case tag.RowsAffected() == 0:
		return &NotSkippedError{r.workspaceID, r.restored} // somebody else was faster
	}
	now := r.cfg.Clock()
	text := fmt.Sprintf("%s; passed over on %s, because: %s; given its effect on %s",
		failed, domain.FormatTime(at.UTC()), reason, domain.FormatTime(now.UTC()))
	_, err = tx.Exec(ctx, `
		INSERT INTO log_failure (workspace_id, consumer, from_position, through_position, error_digest, error, times, first_at, last_at)
		VALUES ($1, $2, $3, $3, md5($4), $4, 1, $5, $6)
		ON CONFLICT (workspace_id, consumer, from_position, through_position, error_digest) DO NOTHING`,
		r.workspaceID, eventlog.ReadModels, r.restored, text, at, now)
	if err != nil {
		return fmt.Errorf("keep that the skip was taken back: %w", err)
	}
	return nil
}
