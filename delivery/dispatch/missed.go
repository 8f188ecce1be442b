package dispatch

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// chosenSQL is an SQL condition: entry e may be a missed event. It is in workspace $1, has one of
// the types $3 (null: all), and its position is after $4 and at most $5.
const chosenSQL = `e.workspace_id = $1 AND e.position > $4 AND e.position <= $5 AND e.public_event IS NOT NULL
	AND e.type <> 'test.ping' AND ($3::text[] IS NULL OR e.type = ANY ($3))`

// Missed is a range of the log in which a webhook may have missed events.
type Missed struct {
	WorkspaceID, WebhookID string
	Types                  []string // the webhook's event types; nil: all
	After, To              int64    // positions above After, up to To
}

// Count returns how many events "Send missed" sends: those for which no attempt was made. It also
// returns how many deliveries are pending. It reads the range of the log and the range of the deliveries
// once each, whatever the statistics say. A join might not.
func (m *Missed) Count(ctx context.Context, tx pgx.Tx) (n, waiting int64, err error) {
	err = tx.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM event_log e WHERE `+chosenSQL+`)
		     - (SELECT count(DISTINCT d.position) FROM webhook_delivery d
		         WHERE d.workspace_id = $1 AND d.webhook_id = $2 AND d.position > $4 AND d.position <= $5
		           AND d.event_type <> 'test.ping' AND ($3::text[] IS NULL OR d.event_type = ANY ($3))),
		       (SELECT count(*) FROM webhook_waiting q WHERE q.workspace_id = $1 AND q.webhook_id = $2)`,
		m.WorkspaceID, m.WebhookID, m.Types, m.After, m.To).Scan(&n, &waiting)
	return n, waiting, err
}

// readMissed reads the next missed events of a webhook and returns the position that it has read up
// to. Events that have a delivery are not missed, whatever became of it. The statement
// looks up one delivery per event, in key order and with LIMIT 1, so that no statistics make it
// read all deliveries of the webhook for each event.
func (s *store) readMissed(ctx context.Context, r *scheduler.PollRequest) (list []*scheduler.Attempt, to int64, err error) {
	to = min(r.ReplayTo, r.ReplayAfter+missedWindow)
	list, err = pg.Collect(ctx, s.pool, scanMissed, `
		SELECT e.position, e.id, e.type, e.public_event, e.created_at
		  FROM event_log e
		  LEFT JOIN LATERAL (
		       SELECT d.state FROM webhook_delivery d
		        WHERE d.workspace_id = $1 AND d.webhook_id = $2 AND d.position BETWEEN e.position AND e.position
		        ORDER BY d.position DESC, d.created_at DESC LIMIT 1) AS d ON true
		 WHERE `+chosenSQL+` AND d.state IS NULL
		 ORDER BY e.position LIMIT $6`, r.Key.WorkspaceID, r.Key.WebhookID, r.Events, r.ReplayAfter, to, r.ReplayLimit)
	if err != nil {
		return nil, 0, fmt.Errorf("query: %w", err)
	}
	if len(list) == r.ReplayLimit {
		to = list[len(list)-1].Position
	}
	return list, to, nil
}

func scanMissed(row pgx.CollectableRow) (*scheduler.Attempt, error) {
	a := &scheduler.Attempt{}
	err := row.Scan(&a.Position, &a.EventID, &a.EventType, &a.Body, &a.Published)
	return a, err
}
