package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
)

// chosenSQL is true of an entry e whose event may be a missed one: it is in the workspace $1, of a
// type of $3 (null: all), at a position after $4 up to $5.
const chosenSQL = `e.workspace_id = $1 AND e.position > $4 AND e.position <= $5 AND e.public_event IS NOT NULL
	AND e.type <> 'test.ping' AND ($3::text[] IS NULL OR e.type = ANY ($3))`

// Missed is a range of the log in which a webhook may have missed events.
type Missed struct {
	WorkspaceID, WebhookID string
	Types                  []string // that the webhook chose; nil: all
	After, To              int64    // positions after the first, up to the second
}

// Count counts the events that "Send missed" sends: those that were neither
// delivered nor wait to be. It reads the range of the log and that of the deliveries once each,
// whatever statistics say; a join of the two would not be sure to.
func (m *Missed) Count(ctx context.Context, tx pgx.Tx) (n int64, err error) {
	err = tx.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM event_log e WHERE `+chosenSQL+`)
		     - (SELECT count(DISTINCT d.position) FROM webhook_delivery d
		         WHERE d.workspace_id = $1 AND d.webhook_id = $2 AND d.position > $4 AND d.position <= $5 AND d.state IN ('succeeded', 'pending')
		           AND d.event_type <> 'test.ping' AND ($3::text[] IS NULL OR d.event_type = ANY ($3)))`,
		m.WorkspaceID, m.WebhookID, m.Types, m.After, m.To).Scan(&n)
	return n, err
}

// readMissed reads the next missed events of a webhook and returns the position
// that it has read up to. An event whose delivery failed or was cancelled before
// continues that delivery. Deliveries are looked up one by one, in the order of their key and up to
// the first, so that no statistics make it read all deliveries of the webhook for each event.
func (s *store) readMissed(ctx context.Context, r *scheduler.PollRequest) (list []*scheduler.Attempt, to int64, err error) {
	to = min(r.ReplayTo, r.ReplayAfter+missedWindow)
	rows, err := s.pool.Query(ctx, `
		SELECT e.position, e.id, e.type, e.public_event, e.created_at, coalesce(d.attempts, 0), d.created_at
		  FROM event_log e
		  LEFT JOIN LATERAL (
		       SELECT d.created_at, d.state, jsonb_array_length(d.attempts) AS attempts FROM webhook_delivery d
		        WHERE d.workspace_id = $1 AND d.webhook_id = $2 AND d.position BETWEEN e.position AND e.position
		        ORDER BY d.position DESC, d.created_at DESC LIMIT 1) AS d ON true
		 WHERE `+chosenSQL+` AND (d.state IS NULL OR d.state NOT IN ('succeeded', 'pending'))
		 ORDER BY e.position LIMIT $6`,
		r.Key.WorkspaceID, r.Key.WebhookID, r.Events, r.ReplayAfter, to, r.ReplayLimit)
	if err != nil {
		return nil, 0, fmt.Errorf("query: %w", err)
	}
	list, err = pgx.CollectRows(rows, scanMissed)
	if err != nil {
		return nil, 0, err
	}
	if len(list) == r.ReplayLimit {
		to = list[len(list)-1].Position
	}
	return list, to, nil
}

func scanMissed(row pgx.CollectableRow) (*scheduler.Attempt, error) {
	var (
		a       = &scheduler.Attempt{}
		created *time.Time
	)
	err := row.Scan(&a.Position, &a.EventID, &a.EventType, &a.Body, &a.Published, &a.Made, &created)
	if created != nil {
		a.CreatedAt = created.UTC()
	}
	a.Before = a.Made
	return a, err
}
