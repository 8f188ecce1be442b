package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// Missed is what "Send missed" sends, or would send.
type Missed struct {
	Since   Time  `json:"since"`
	Count   int64 `json:"count"`
	Waiting int64 `json:"waiting"` // deliveries that are pending; Recover sends them at once
}

// CountMissed counts the events of a webhook's types since a time that were published while the webhook
// existed and was off, so that no attempt was made for them (docs/contract/decisions.md, "Webhooks"). The
// time must be within the retention. Errors: *UnknownWebhookError, *SinceError.
func (s *Store) CountMissed(ctx context.Context, webhookID string, since time.Time) (*Missed, error) {
	m := &Missed{Since: Time{since.UTC()}}
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		_, _, err := missedRange(ctx, s, tx, webhookID, m)
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// missedRange finds the part of the log in which a webhook may have missed events, and counts them
// into m. It leaves the webhook's row locked. refused says why the events cannot be sent now; nil:
// they can.
func missedRange(ctx context.Context, s *Store, tx pgx.Tx, webhookID string, m *Missed) (r *dispatch.Missed, refused error, err error) {
	now := s.now()
	switch {
	case m.Since.After(now):
		return nil, nil, &SinceError{"the time is in the future"}
	case m.Since.Before(now.Add(-s.cfg.Settings.Retention)):
		return nil, nil, &SinceError{"missed events can be sent for the last " + texts.Duration(s.cfg.Settings.Retention)}
	}
	r = &dispatch.Missed{WebhookID: webhookID}
	if r.WorkspaceID, err = workspaceOf(ctx, tx, webhookID); err != nil {
		return nil, nil, err
	}
	var state string
	// A webhook that is on gets the events after its cursor anyway; a paused one gets them after it
	// is resumed.
	err = tx.QueryRow(ctx, `
		SELECT w.events, w.state, log_position_since(w.workspace_id, greatest($2, w.created_at)) - 1,
		       CASE WHEN w.state = 'off' THEN h.position ELSE c.position END
		  FROM webhook w
		  JOIN webhook_cursor c ON c.workspace_id = w.workspace_id AND c.webhook_id = w.webhook_id
		  JOIN log_head h ON h.workspace_id = w.workspace_id
		 WHERE w.workspace_id = $3 AND w.webhook_id = $1 FOR NO KEY UPDATE OF w`, webhookID, m.Since.Time, r.WorkspaceID).
		Scan(&r.Types, &state, &r.After, &r.To)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil, &UnknownWebhookError{webhookID}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("find missed events of %s: %w", webhookID, err)
	}
	if m.Count, m.Waiting, err = r.Count(ctx, tx); err != nil {
		return nil, nil, fmt.Errorf("count missed events of %s: %w", webhookID, err)
	}
	switch state {
	case "off":
		refused = ErrOff
	case "paused":
		refused = ErrPaused
	}
	return r, refused, nil
}

// SendMissed sends each event that CountMissed counts once, in the background, alongside new events
// and within the webhook's limit on attempts in flight. A failed delivery is retried like any
// other. Events that an earlier call has yet to send stay included. Errors: *UnknownWebhookError,
// *SinceError, ErrOff, ErrPaused.
func (s *Store) SendMissed(ctx context.Context, webhookID string, since time.Time) (*Missed, error) {
	m := &Missed{Since: Time{since.UTC()}}
	var workspaceID string
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		r, refused, err := missedRange(ctx, s, tx, webhookID, m)
		if err := cmp.Or(err, refused); err != nil {
			return err
		}
		workspaceID = r.WorkspaceID
		if err := mayChange(ctx, tx, workspaceID); err != nil {
			return err
		}
		if err := historyIsWhole(ctx, tx, workspaceID); err != nil {
			return err
		}
		if m.Count == 0 {
			return nil
		}
		_, err = tx.Exec(ctx, `
			UPDATE webhook_cursor
			   SET replay_position = least(replay_position, $3), replay_until = greatest(replay_until, $4)
			 WHERE workspace_id = $1 AND webhook_id = $2`, workspaceID, webhookID, r.After, r.To)
		if err != nil {
			return fmt.Errorf("send missed events of %s: %w", webhookID, err)
		}
		w := &named{workspaceID: workspaceID, id: webhookID}
		err = tx.QueryRow(ctx, `
			UPDATE webhook SET version = version + 1 WHERE workspace_id = $1 AND webhook_id = $2 RETURNING url, name`, workspaceID, webhookID).Scan(&w.url, &w.name)
		if err != nil {
			return fmt.Errorf("send missed events of %s: %w", webhookID, err)
		}
		return s.addToAudit(ctx, tx, audit.WebhookSendMissed, w, texts.Count(m.Count, "event", "events")+" since "+m.Since.Format(time.RFC3339))
	})
	if err != nil {
		return nil, err
	}
	s.changed(workspaceID)
	return m, nil
}

// Lost is what a webhook never got, within the retention: messages whose delivery has ended without
// success. Recover with Since sends them again.
type Lost struct {
	Messages int64
	More     bool      // there may be more: not all deliveries were examined
	Since    time.Time // no later than the publish time of their oldest event
}

// Lost counts what a webhook never got; nil: nothing. It examines the newest failed and cancelled
// deliveries, up to most of each, so that pages can show it.
func (w *Webhook) Lost(ctx context.Context, s *Store, most int) (*Lost, error) {
	var (
		l      = &Lost{}
		kept   = s.now().Add(-s.cfg.Settings.Retention)
		window = dispatch.Window{WorkspaceID: w.WorkspaceID, WebhookID: w.ID}
		oldest int64
	)
	err := pg.InTx(ctx, s.cfg.Pool, func(tx pgx.Tx) (err error) {
		err = tx.QueryRow(ctx, `
			SELECT coalesce(log_position_since(workspace_id, $2), position + 1) - 1, position FROM log_head WHERE workspace_id = $1`, w.WorkspaceID, kept).Scan(&window.After, &window.To)
		if err != nil {
			return fmt.Errorf("find the window: %w", err)
		}
		if err := byKey(ctx, tx); err != nil {
			return err
		}
		if l.Messages, oldest, l.More, err = window.CountFailed(ctx, tx, kept, most); err != nil || l.Messages == 0 {
			return err
		}
		return tx.QueryRow(ctx, `SELECT created_at FROM event_log WHERE workspace_id = $1 AND position BETWEEN $2 AND $2 ORDER BY position LIMIT 1`, w.WorkspaceID, oldest).Scan(&l.Since)
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("count what %s never got: %w", w.ID, err)
	case l.Messages == 0:
		return nil, nil
	case l.More:
		l.Since = kept
	}
	l.Since = l.Since.UTC()
	return l, nil
}
