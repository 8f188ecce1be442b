package statement

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
)

// reading reads the events of a statement.
type reading struct {
	statement *Statement
	standing  standing
	types     []string // that the webhook has chosen; nil: all
	from, to  int64    // positions of the day

	// underWay are the positions of events that were numbered for an attempt that may be
	// under way. The number may still be withdrawn, so a statement does not name it.
	underWay []int64
}

// begin reads what the statement says of the webhook.
func begin(ctx context.Context, tx pgx.Tx, s *Statement) (*reading, error) {
	r := &reading{statement: s}
	var created time.Time
	at := &r.standing
	err := tx.QueryRow(ctx, `
		SELECT w.workspace_id, w.events, w.state = 'off', w.created_at, c.position, coalesce(c.replay_position, 0), coalesce(c.replay_until, 0), c.expired,
		       c.numbered_positions, coalesce(v.position, 0),
		       log_position_since(w.workspace_id, $2), least(log_position_since(w.workspace_id, $3) - 1, v.position)
		  FROM webhook w
		  JOIN webhook_cursor c ON c.workspace_id = w.workspace_id AND c.webhook_id = w.webhook_id
		  LEFT JOIN log_checkpoint v ON v.workspace_id = w.workspace_id AND v.consumer = 'read_models'
		 WHERE w.webhook_id = $1`, s.WebhookID, s.Day.Time, s.Day.Next().Time).
		Scan(&s.WorkspaceID, &r.types, &at.off, &created, &at.cursor, &at.replayed, &at.replayedUntil, &s.History,
			&r.underWay, &s.Position, &r.from, &r.to)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, &delivery.UnknownWebhookError{WebhookID: s.WebhookID}
	}
	if err != nil {
		return nil, fmt.Errorf("read the webhook: %w", err)
	}
	if s.Events = r.types; r.types == nil {
		s.Events = []string{delivery.AllEvents}
	}
	var chosen *time.Time
	// The trail says when the types were chosen, and is never shortened. The types come first
	// in the detail (delivery.Store.Edit); what people wrote may stand after them.
	err = tx.QueryRow(ctx, `
		SELECT max(at) FILTER (WHERE action = $4 AND detail LIKE 'events: %'), coalesce(bool_or(action = $5), false)
		  FROM console_audit WHERE workspace_id = $1 AND object_id = $2 AND at >= $3`,
		s.WorkspaceID, s.WebhookID, s.Day.Time, audit.WebhookEdit, audit.WebhookTurnOn).Scan(&chosen, &at.turnedOn)
	if err != nil {
		return nil, fmt.Errorf("read when the webhook was changed: %w", err)
	}
	from := s.Day.Time
	if created.After(from) {
		from = created
	}
	if chosen != nil && chosen.After(from) {
		from = *chosen
	}
	s.CountedFrom = inMilliseconds(from)
	return r, nil
}

// earliest is how long before its event's publish time a delivery may have been made, as
// far as the clocks of the machines tell. It keeps the look into the history to the days
// from then on.
const earliest = time.Hour

// read reads the events of the day in the order of their numbers, those without one last.
// A delivery is delivered once an attempt has succeeded, which its error tells: it is null.
func (r *reading) read(ctx context.Context, tx pgx.Tx) error {
	s := r.statement
	rows, err := tx.Query(ctx, `
		SELECT e.position, e.id, d.state, d.answered, d.sequence, n.position IS NOT NULL, $7::text[] IS NULL OR e.type = ANY ($7)
		  FROM event_log e
		  LEFT JOIN (
		       SELECT DISTINCT ON (d.position) d.position, d.state, d.sequence, d.state = 'succeeded' OR d.attempts @> '[{"error": null}]' AS answered
		         FROM webhook_delivery d
		        WHERE d.workspace_id = $1 AND d.webhook_id = $2 AND d.position >= $3 AND d.position <= $4 AND d.created_at > $5
		        ORDER BY d.position, answered DESC, d.created_at DESC) d ON d.position = e.position
		  LEFT JOIN unnest($6::bigint[]) AS n (position) ON n.position = e.position
		 WHERE e.workspace_id = $1 AND e.position >= $3 AND e.position <= $4 AND e.public_event IS NOT NULL AND e.type <> 'test.ping'
		   AND (d.position IS NOT NULL OR n.position IS NOT NULL
		        OR ($7::text[] IS NULL OR e.type = ANY ($7)) AND (e.position > $8 OR e.position > $9 AND e.position <= $10 OR e.created_at >= $11))
		 ORDER BY d.sequence NULLS LAST, e.position`,
		s.WorkspaceID, s.WebhookID, r.from, r.to, s.Day.Add(-earliest), r.underWay,
		r.types, r.standing.cursor, r.standing.replayed, r.standing.replayedUntil, s.CountedFrom.Time)
	if err != nil {
		return fmt.Errorf("read the events: %w", err)
	}
	var e event
	t := newTally(s, r.standing)
	_, err = pgx.ForEachRow(rows, []any{&e.position, &e.id, &e.state, &e.answered, &e.sequence, &e.underWay, &e.chosen}, func() error {
		t.add(&e)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the events: %w", err)
	}
	t.end()
	return nil
}
