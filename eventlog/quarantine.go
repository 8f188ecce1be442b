package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// keptFailures is how many different failures of a workspace are remembered.
const keptFailures = 50

// keepFailure adds a failure to the history, in the transaction that records
// it. The same failure of the same segment is counted, not repeated.
func keepFailure(ctx context.Context, tx pgx.Tx, consumer string, s *Segment, text string, now time.Time) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO log_failure AS f (workspace_id, consumer, from_position, through_position, error_digest, error, times, first_at, last_at)
		VALUES ($1, $2, $3, $4, md5($5), $5, 1, $6, $6)
		ON CONFLICT (workspace_id, consumer, from_position, through_position, error_digest)
		DO UPDATE SET times = f.times + 1, last_at = excluded.last_at`,
		s.WorkspaceID, consumer, s.After+1, s.End(), text, now)
	if err != nil {
		return fmt.Errorf("keep the failure: %w", err)
	}
	_, err = tx.Exec(ctx, `
		DELETE FROM log_failure f WHERE f.workspace_id = $1 AND f.consumer = $2 AND f.last_at < (
		       SELECT o.last_at FROM log_failure o WHERE o.workspace_id = $1 AND o.consumer = $2
		        ORDER BY o.last_at DESC OFFSET $3 LIMIT 1)`, s.WorkspaceID, consumer, keptFailures-1)
	if err != nil {
		return fmt.Errorf("forget old failures: %w", err)
	}
	return nil
}

// Failure is one way in which a consumer failed at a segment of a workspace.
type Failure struct {
	From    int64     `json:"from"` // first position of the segment
	Through int64     `json:"through"`
	Error   string    `json:"error"`
	Times   int64     `json:"times"`
	FirstAt time.Time `json:"first_at"`
	LastAt  time.Time `json:"last_at"`
}

// Failures returns the history of a consumer's failures in a workspace, oldest
// first; the newest keptFailures of them are kept.
func (l *Log) Failures(ctx context.Context, consumer, workspaceID string) ([]Failure, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT from_position, through_position, error, times, first_at, last_at
		  FROM log_failure WHERE workspace_id = $1 AND consumer = $2
		 ORDER BY first_at, from_position, through_position DESC`, workspaceID, consumer)
	if err != nil {
		return nil, fmt.Errorf("read the failures in %s: %w", workspaceID, err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Failure])
	if err != nil {
		return nil, fmt.Errorf("read the failures in %s: %w", workspaceID, err)
	}
	for i := range list {
		list[i].FirstAt, list[i].LastAt = list[i].FirstAt.UTC(), list[i].LastAt.UTC()
	}
	return list, nil
}

// NotQuarantinedError says that a workspace does not wait at an entry.
type NotQuarantinedError struct{ WorkspaceID string }

// Error names the workspace.
func (e *NotQuarantinedError) Error() string {
	return fmt.Sprintf("workspace %s is not quarantined", e.WorkspaceID)
}

// RetryQuarantined lets a consumer try a quarantined workspace again at its
// next sweep. The error is an *domain.UnknownWorkspaceError or a
// *NotQuarantinedError when there is nothing to try.
func (l *Log) RetryQuarantined(ctx context.Context, consumer, workspaceID string) error {
	var quarantined bool
	err := l.pool.QueryRow(ctx, `
		UPDATE log_checkpoint SET retry_at = CASE WHEN quarantined THEN NULL ELSE retry_at END
		 WHERE workspace_id = $1 AND consumer = $2
		RETURNING quarantined`, workspaceID, consumer).Scan(&quarantined)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return &domain.UnknownWorkspaceError{WorkspaceID: workspaceID}
	case err != nil:
		return fmt.Errorf("let %s be tried again: %w", workspaceID, err)
	case !quarantined:
		return &NotQuarantinedError{workspaceID}
	}
	l.notify(TopicAppended, workspaceID)
	return nil
}
