package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Skip is an entry that an operator made a consumer pass over. It has no
// effect, also when the log is folded again.
type Skip struct {
	WorkspaceID string    `json:"workspace_id"`
	Position    int64     `json:"position"`
	EventID     string    `json:"event_id"`
	Type        string    `json:"type"`
	Error       string    `json:"error"`  // why the consumer could not handle it
	Reason      string    `json:"reason"` // the operator's words
	SkippedAt   time.Time `json:"skipped_at"`
}

// SkipQuarantined makes a consumer pass over the entry that a quarantined
// workspace waits at, and keeps that and the reason. The error is an
// *domain.UnknownWorkspaceError or a *NotQuarantinedError when none waits.
func (l *Log) SkipQuarantined(ctx context.Context, consumer, workspaceID, reason string) (Skip, error) {
	if reason == "" {
		return Skip{}, errors.New("passing over an entry needs a reason")
	}
	s := Skip{WorkspaceID: workspaceID, Reason: reason, SkippedAt: l.clock().UTC().Truncate(time.Millisecond)}
	err := pg.InTx(ctx, l.pool, func(tx pgx.Tx) error { return s.make(ctx, tx, consumer) })
	if err != nil {
		return Skip{}, err
	}
	l.notify(topicMoved(consumer), workspaceID)
	l.notify(TopicAppended, workspaceID)
	return s, nil
}

func (s *Skip) make(ctx context.Context, tx pgx.Tx, consumer string) error {
	var (
		checkpoint  int64
		quarantined bool
	)
	err := tx.QueryRow(ctx, `
		SELECT position, quarantined, coalesce(error, '') FROM log_checkpoint
		 WHERE workspace_id = $1 AND consumer = $2 FOR UPDATE`, s.WorkspaceID, consumer).Scan(&checkpoint, &quarantined, &s.Error)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return &domain.UnknownWorkspaceError{WorkspaceID: s.WorkspaceID}
	case err != nil:
		return fmt.Errorf("lock the checkpoint of %s: %w", s.WorkspaceID, err)
	case !quarantined:
		return &NotQuarantinedError{s.WorkspaceID}
	}
	s.Position = checkpoint + 1
	if err := tx.QueryRow(ctx, `SELECT id, type FROM event_log WHERE workspace_id = $1 AND position = $2`,
		s.WorkspaceID, s.Position).Scan(&s.EventID, &s.Type); err != nil {
		return fmt.Errorf("read the entry that %s waits at, position %d: %w", s.WorkspaceID, s.Position, err)
	}
	if _, err := tx.Exec(ctx, `
		INSERT INTO log_skip (workspace_id, consumer, position, event_id, type, error, reason, skipped_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		s.WorkspaceID, consumer, s.Position, s.EventID, s.Type, s.Error, s.Reason, s.SkippedAt); err != nil {
		return fmt.Errorf("keep that position %d of %s is passed over: %w", s.Position, s.WorkspaceID, err)
	}
	// Without a row, all rows stand on any rules, the next handler's included.
	if _, err := tx.Exec(ctx, `
		UPDATE log_checkpoint SET position = $3, moved_at = $4, rules = CASE WHEN position = 0 THEN 2147483647 ELSE rules END, failures = 0, failed_to = NULL, segment_max = NULL,
		       error = NULL, retry_at = NULL, quarantined = false
		 WHERE workspace_id = $1 AND consumer = $2`, s.WorkspaceID, consumer, s.Position, s.SkippedAt); err != nil {
		return fmt.Errorf("move the checkpoint of %s: %w", s.WorkspaceID, err)
	}
	return nil
}

// Skips returns the entries that a consumer was made to pass over, in every
// workspace or, with an id, in one, in the order of the log.
func (l *Log) Skips(ctx context.Context, consumer, workspaceID string) ([]Skip, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT workspace_id, position, event_id, type, error, reason, skipped_at
		  FROM log_skip WHERE consumer = $1 AND ($2 = '' OR workspace_id = $2)
		 ORDER BY workspace_id, position`, consumer, workspaceID)
	if err != nil {
		return nil, fmt.Errorf("read which entries were passed over: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Skip])
	if err != nil {
		return nil, fmt.Errorf("read which entries were passed over: %w", err)
	}
	for i := range list {
		list[i].SkippedAt = list[i].SkippedAt.UTC()
	}
	return list, nil
}
