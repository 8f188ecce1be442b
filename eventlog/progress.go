package eventlog

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Progress is how far a consumer has come in one workspace.
type Progress struct {
	WorkspaceID string
	Position    int64         // checkpoint
	Head        int64         // newest position of the log
	Waiting     time.Duration // since the oldest unhandled entry was appended, by the database's clock; 0: there is none
	Failures    int
	Error       string // the last failure; empty: it does not fail
	RetryAt     time.Time
	Quarantined bool
}

// ReadProgress returns how far a consumer has come in one workspace, or in all if workspaceID is
// empty.
func ReadProgress(ctx context.Context, pool pg.DB, consumer, workspaceID string) ([]Progress, error) {
	list, err := pg.Collect(ctx, pool, func(row pgx.CollectableRow) (Progress, error) {
		var (
			p       Progress
			waiting *float64
			retry   *time.Time
		)
		err := row.Scan(&p.WorkspaceID, &p.Position, &p.Head, &waiting, &p.Failures, &p.Error, &retry, &p.Quarantined)
		if waiting != nil {
			p.Waiting = time.Duration(max(0, *waiting) * float64(time.Second))
		}
		if retry != nil {
			p.RetryAt = retry.UTC()
		}
		return p, err
	}, `
		SELECT c.workspace_id, c.position, h.position,
		       extract(epoch FROM clock_timestamp() - coalesce(e.appended_at, e.created_at))::float8,
		       c.failures, coalesce(c.error, ''), c.retry_at, c.quarantined
		  FROM log_checkpoint c
		  JOIN log_head h USING (workspace_id)
		  LEFT JOIN event_log e ON h.position > c.position
		       AND e.workspace_id = c.workspace_id AND e.position = c.position + 1
		 WHERE c.consumer = $1 AND ($2 = '' OR c.workspace_id = $2)
		 ORDER BY c.workspace_id`, consumer, workspaceID)
	if err != nil {
		return nil, fmt.Errorf("read the checkpoints of %s: %w", consumer, err)
	}
	return list, nil
}
