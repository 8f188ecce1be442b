package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Quarantine lets operators look at a consumer's failures and end its quarantines:
// of workspaces that it has stopped in, because it cannot handle an entry. It is
// safe for concurrent use.
type Quarantine struct {
	pool     *pgxpool.Pool
	consumer string
	clock    func() time.Time
	notify   NotifyFunc
}

// NewQuarantine makes the Quarantine of a consumer, such as ReadModels.
func NewQuarantine(pool *pgxpool.Pool, consumer string, clock func() time.Time, notify NotifyFunc) *Quarantine {
	return &Quarantine{pool: pool, consumer: consumer, clock: clock, notify: notify}
}

// Consumers are the names of all consumers that have a checkpoint, in order.
func Consumers(ctx context.Context, pool *pgxpool.Pool) ([]string, error) {
	rows, err := pool.Query(ctx, `SELECT DISTINCT consumer FROM log_checkpoint ORDER BY consumer`)
	if err != nil {
		return nil, fmt.Errorf("list the consumers: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list the consumers: %w", err)
	}
	return names, nil
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

// Failures returns the history of the consumer's failures in a workspace, oldest
// first; the newest 50 of them are kept.
func (q *Quarantine) Failures(ctx context.Context, workspaceID string) ([]Failure, error) {
	rows, err := q.pool.Query(ctx, `
		SELECT from_position, through_position, error, times, first_at, last_at
		  FROM log_failure WHERE workspace_id = $1 AND consumer = $2
		 ORDER BY first_at, from_position, through_position DESC`, workspaceID, q.consumer)
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

// NotQuarantinedError says that a workspace is not quarantined.
type NotQuarantinedError struct{ WorkspaceID string }

// Error names the workspace.
func (e *NotQuarantinedError) Error() string {
	return fmt.Sprintf("workspace %s is not quarantined", e.WorkspaceID)
}

// Retry lets the consumer try a quarantined workspace again at its next sweep. The
// error is a *domain.UnknownWorkspaceError or a *NotQuarantinedError when there is
// nothing to try.
func (q *Quarantine) Retry(ctx context.Context, workspaceID string) error {
	err := pg.InTx(ctx, q.pool, func(tx pgx.Tx) error {
		var (
			position    int64
			quarantined bool
		)
		err := tx.QueryRow(ctx, `
			UPDATE log_checkpoint SET retry_at = CASE WHEN quarantined THEN NULL ELSE retry_at END
			 WHERE workspace_id = $1 AND consumer = $2
			RETURNING position, quarantined`, workspaceID, q.consumer).Scan(&position, &quarantined)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return &domain.UnknownWorkspaceError{WorkspaceID: workspaceID}
		case err != nil:
			return fmt.Errorf("retry %s: %w", workspaceID, err)
		case !quarantined:
			return &NotQuarantinedError{workspaceID}
		}
		return audit.Add(ctx, tx, q.clock(), audit.Change{WorkspaceID: workspaceID, Action: audit.EntryRetry, ObjectName: audit.EntryName(position + 1)})
	})
	if err != nil {
		return err
	}
	if _, err := q.pool.Exec(ctx, forgetDeaths, workspaceID, q.consumer); err != nil {
		return fmt.Errorf("forget how often the process ended while it handled the entry in %s: %w", workspaceID, err)
	}
	q.notify(TopicAppended, workspaceID)
	return nil
}

// Skip is an entry that an operator made the consumer skip. It has no effect, also
// when the log is folded again.
type Skip struct {
	Consumer    string    `json:"consumer"`
	WorkspaceID string    `json:"workspace_id"`
	Position    int64     `json:"position"`
	EventID     string    `json:"event_id"`
	Type        string    `json:"type"`
	Error       string    `json:"error"`  // why the consumer could not handle it
	Reason      string    `json:"reason"` // the operator's words
	SkippedAt   time.Time `json:"skipped_at"`
}

// Skip makes the consumer skip the entry at which a workspace is quarantined, and
// records that with the reason. The error is a *domain.UnknownWorkspaceError or a
// *NotQuarantinedError when there is no such entry.
func (q *Quarantine) Skip(ctx context.Context, workspaceID, reason string) (Skip, error) {
	if reason == "" {
		return Skip{}, errors.New("skipping an entry needs a reason")
	}
	s := Skip{Consumer: q.consumer, WorkspaceID: workspaceID, Reason: reason, SkippedAt: q.clock().UTC().Truncate(time.Millisecond)}
	err := pg.InTx(ctx, q.pool, func(tx pgx.Tx) error { return s.record(ctx, tx) })
	if err != nil {
		return Skip{}, err
	}
	q.notify(TopicProjected, workspaceID) // consumers that come after the read models listen to it
	q.notify(TopicAppended, workspaceID)
	return s, nil
}

// record fills in the entry, records the skip and moves the checkpoint.
func (s *Skip) record(ctx context.Context, tx pgx.Tx) error {
	var (
		checkpoint  int64
		quarantined bool
	)
	err := tx.QueryRow(ctx, `
		SELECT position, quarantined, coalesce(error, '') FROM log_checkpoint
		 WHERE workspace_id = $1 AND consumer = $2 FOR UPDATE`, s.WorkspaceID, s.Consumer).Scan(&checkpoint, &quarantined, &s.Error)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return &domain.UnknownWorkspaceError{WorkspaceID: s.WorkspaceID}
	case err != nil:
		return fmt.Errorf("lock the checkpoint of %s: %w", s.WorkspaceID, err)
	case !quarantined:
		return &NotQuarantinedError{s.WorkspaceID}
	}
	s.Position = checkpoint + 1
	if err := tx.QueryRow(ctx, `SELECT id, type FROM event_log WHERE workspace_id = $1 AND position BETWEEN $2 AND $2 ORDER BY position`,
		s.WorkspaceID, s.Position).Scan(&s.EventID, &s.Type); err != nil {
		return fmt.Errorf("read the entry at which %s is quarantined, position %d: %w", s.WorkspaceID, s.Position, err)
	}
	if _, err := tx.Exec(ctx, `
		INSERT INTO log_skip (workspace_id, consumer, position, event_id, type, error, reason, skipped_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		s.WorkspaceID, s.Consumer, s.Position, s.EventID, s.Type, s.Error, s.Reason, s.SkippedAt); err != nil {
		return fmt.Errorf("record the skip of position %d of %s: %w", s.Position, s.WorkspaceID, err)
	}
	// While there are no rows, rules is the highest version, so that the handler's own
	// becomes the oldest with its first rows.
	if _, err := tx.Exec(ctx, `
		UPDATE log_checkpoint SET position = $3, moved_at = $4, rules = CASE WHEN position = 0 THEN 2147483647 ELSE rules END, failures = 0, failed_to = NULL, segment_max = NULL,
		       error = NULL, retry_at = NULL, quarantined = false
		 WHERE workspace_id = $1 AND consumer = $2`, s.WorkspaceID, s.Consumer, s.Position, s.SkippedAt); err != nil {
		return fmt.Errorf("move the checkpoint of %s: %w", s.WorkspaceID, err)
	}
	return audit.Add(ctx, tx, s.SkippedAt, audit.Change{
		WorkspaceID: s.WorkspaceID, Action: audit.EntrySkip, ObjectID: s.EventID, ObjectName: audit.EntryName(s.Position), Detail: s.Reason,
	})
}

// Skips returns the entries that were skipped, in every workspace or, with an id, in
// one, in the order of the log.
func (q *Quarantine) Skips(ctx context.Context, workspaceID string) ([]Skip, error) {
	rows, err := q.pool.Query(ctx, `
		SELECT consumer, workspace_id, position, event_id, type, error, reason, skipped_at
		  FROM log_skip WHERE consumer = $1 AND ($2 = '' OR workspace_id = $2)
		 ORDER BY workspace_id, position`, q.consumer, workspaceID)
	if err != nil {
		return nil, fmt.Errorf("read which entries were skipped: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Skip])
	if err != nil {
		return nil, fmt.Errorf("read which entries were skipped: %w", err)
	}
	for i := range list {
		list[i].SkippedAt = list[i].SkippedAt.UTC()
	}
	return list, nil
}
