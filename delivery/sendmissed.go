package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Missed is what "Send missed" would send, or sends.
type Missed struct {
	Since Time  `json:"since"`
	Count int64 `json:"count"`
}

// CountMissed counts the events of a webhook's types since a time, within the
// retention, that were neither delivered to it nor wait to be. Errors:
// *UnknownWebhookError, *SinceError.
func (s *Store) CountMissed(ctx context.Context, webhookID string, since time.Time) (*Missed, error) {
	m := &Missed{Since: Time{since.UTC()}}
	err := pg.InTx(ctx, s.cfg.Pool, func(tx pgx.Tx) error {
		_, err := s.missedRange(ctx, tx, webhookID, m)
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// missedSpan is the positions among which the missed events are.
type missedSpan struct {
	key          key
	after, until int64
	on           bool
}

func (s *Store) missedRange(ctx context.Context, tx pgx.Tx, webhookID string, m *Missed) (*missedSpan, error) {
	now := s.now()
	switch {
	case m.Since.After(now):
		return nil, &SinceError{"the time is in the future"}
	case m.Since.Before(now.Add(-s.cfg.Settings.Retention)):
		return nil, &SinceError{"missed events can be sent for the last " + inWords(s.cfg.Settings.Retention)}
	}
	span := &missedSpan{key: key{webhookID: webhookID}}
	var events []string
	err := tx.QueryRow(ctx, `
		SELECT w.workspace_id, w.events, w.state = 'on', log_position_since(w.workspace_id, $2) - 1,
		       CASE WHEN w.state = 'on' THEN c.position ELSE h.position END
		  FROM webhook w
		  JOIN webhook_cursor c ON c.workspace_id = w.workspace_id AND c.webhook_id = w.webhook_id
		  JOIN log_head h ON h.workspace_id = w.workspace_id
		 WHERE w.webhook_id = $1 FOR NO KEY UPDATE OF w`, webhookID, m.Since.Time).
		Scan(&span.key.workspaceID, &events, &span.on, &span.after, &span.until)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, &UnknownWebhookError{webhookID}
	}
	if err != nil {
		return nil, fmt.Errorf("find missed events of %s: %w", webhookID, err)
	}
	// After its cursor the webhook gets everything anyway.
	err = tx.QueryRow(ctx, missedSQL+` SELECT count(*) FROM e`,
		span.key.workspaceID, webhookID, events, span.after, span.until).Scan(&m.Count)
	if err != nil {
		return nil, fmt.Errorf("count missed events of %s: %w", webhookID, err)
	}
	return span, nil
}

// SendMissed has every event sent once that CountMissed counts, in the
// background and beside new events, within the webhook's bound. A failing one
// is tried again like any other. Events that an earlier call still sends stay
// included. Errors: *UnknownWebhookError, *SinceError, ErrOff.
func (s *Store) SendMissed(ctx context.Context, webhookID string, since time.Time) (*Missed, error) {
	m := &Missed{Since: Time{since.UTC()}}
	var workspaceID string
	err := pg.InTx(ctx, s.cfg.Pool, func(tx pgx.Tx) error {
		span, err := s.missedRange(ctx, tx, webhookID, m)
		if err != nil {
			return err
		}
		if !span.on {
			return ErrOff
		}
		workspaceID = span.key.workspaceID
		if m.Count == 0 {
			return nil
		}
		_, err = tx.Exec(ctx, `
			UPDATE webhook_cursor
			   SET replay_position = least(replay_position, $3), replay_until = greatest(replay_until, $4)
			 WHERE workspace_id = $1 AND webhook_id = $2`, workspaceID, webhookID, span.after, span.until)
		if err != nil {
			return fmt.Errorf("send missed events of %s: %w", webhookID, err)
		}
		_, err = tx.Exec(ctx, `UPDATE webhook SET version = version + 1 WHERE workspace_id = $1 AND webhook_id = $2`, workspaceID, webhookID)
		if err != nil {
			return fmt.Errorf("send missed events of %s: %w", webhookID, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.announce(workspaceID)
	return m, nil
}
