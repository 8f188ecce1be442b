package dispatch

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Lag is how far a webhook is behind the visible position of its workspace.
type Lag struct {
	WorkspaceID string `json:"workspace_id"`
	WebhookID   string `json:"webhook_id"`
	State       string `json:"state"`    // on, off or paused
	Position    int64  `json:"position"` // everything up to it was sent once; up to a second old
	Visible     int64  `json:"visible"`
	Entries     int64  `json:"lag_entries"` // entries between them, whether or not they are for this webhook

	// Seconds is how long ago the entry after Position was appended, by the database's
	// clock; 0 when there is none.
	Seconds float64 `json:"lag_seconds"`

	Waiting int64 `json:"waiting"` // deliveries that will be tried again
	Held    bool  `json:"held"`    // a process delivers it
}

// ReadStatus returns the lag of every webhook, or of those of one workspace.
// Webhooks that are off have none.
func ReadStatus(ctx context.Context, pool *pgxpool.Pool, workspaceID string) ([]Lag, error) {
	rows, err := pool.Query(ctx, `
		SELECT w.workspace_id, w.webhook_id, w.state, c.position, v.position,
		       CASE WHEN w.state <> 'off' THEN greatest(v.position - c.position, 0) ELSE 0 END,
		       (SELECT extract(epoch FROM clock_timestamp() - coalesce(e.appended_at, e.created_at))::float8 FROM event_log e
		         WHERE w.state <> 'off' AND v.position > c.position
		           AND e.workspace_id = w.workspace_id AND e.position = c.position + 1),
		       (SELECT count(*) FROM webhook_waiting q WHERE q.workspace_id = w.workspace_id AND q.webhook_id = w.webhook_id),
		       NOT `+free+`
		  FROM webhook w
		  JOIN webhook_cursor c ON c.workspace_id = w.workspace_id AND c.webhook_id = w.webhook_id
		  JOIN log_checkpoint v ON v.workspace_id = w.workspace_id AND v.consumer = 'read_models'
		 WHERE $1 IN ('', w.workspace_id)
		 ORDER BY w.workspace_id, w.created_at, w.webhook_id`, workspaceID)
	if err != nil {
		return nil, fmt.Errorf("read the status of webhooks: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l Lag, err error) {
		var waiting *float64
		err = row.Scan(&l.WorkspaceID, &l.WebhookID, &l.State, &l.Position, &l.Visible, &l.Entries, &waiting, &l.Waiting, &l.Held)
		if waiting != nil {
			l.Seconds = max(*waiting, 0)
		}
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the status of webhooks: %w", err)
	}
	return list, nil
}
