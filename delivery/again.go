package delivery

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// Resend makes one new attempt of a finished delivery at once, under the same id. It also works
// while the webhook is off or paused, so that users can try a repaired receiver. If the attempt
// fails, the delivery is failed again and is not retried. Errors: *UnknownDeliveryError,
// ErrNotFinished.
func (s *Store) Resend(ctx context.Context, deliveryID string) (*Delivery, error) {
	return changeDelivery(ctx, s, deliveryID, func(tx pgx.Tx, d *FullDelivery, w *Webhook) error {
		if d.State == policy.Pending {
			return ErrNotFinished
		}
		now := s.now()
		events, err := sendAgain(ctx, tx, w, []string{d.EventID}, []policy.State{d.State}, now, s.cfg.Settings.Retention)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return ErrNotFinished // another call was first
		}
		return audit.Add(ctx, tx, now, audit.Change{
			WorkspaceID: w.WorkspaceID, Action: audit.DeliveryResend, ObjectID: deliveryID, ObjectName: d.EventType, Detail: "to " + w.Label(),
		})
	})
}

// MaxResend is the maximum number of deliveries per call of ResendSeveral.
const MaxResend = 100

// ResendSeveral does what Resend does for several deliveries of one webhook, in one transaction. It
// sends only failed and cancelled deliveries, each once even if its id is repeated, and returns how
// many. Errors: *UnknownWebhookError, *UnknownDeliveryError for an id of another webhook,
// ErrTooManyDeliveries.
func (s *Store) ResendSeveral(ctx context.Context, webhookID string, deliveryIDs []string) (sent int, err error) {
	if len(deliveryIDs) > MaxResend {
		return 0, ErrTooManyDeliveries
	}
	w, err := s.Get(ctx, webhookID)
	if err != nil {
		return 0, err
	}
	var events []string
	for _, id := range deliveryIDs {
		event, webhook, ok := splitDeliveryID(id)
		if !ok || webhook != webhookID {
			return 0, &UnknownDeliveryError{id}
		}
		events = append(events, event)
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		if err := mayChange(ctx, tx, w.WorkspaceID); err != nil {
			return err
		}
		now := s.now()
		again, err := sendAgain(ctx, tx, w, events, []policy.State{policy.Failed, policy.Cancelled}, now, s.cfg.Settings.Retention)
		if err != nil || len(again) == 0 {
			return err
		}
		sent = len(again)
		return audit.Add(ctx, tx, now, audit.Change{
			WorkspaceID: w.WorkspaceID, Action: audit.DeliveryResend, ObjectID: w.ID, ObjectName: texts.Count(sent, "delivery", "deliveries"),
			Detail: "to " + w.Label() + ": " + strings.Join(again, ", "),
		})
	})
	if err != nil {
		return 0, err
	}
	if sent > 0 {
		s.changed(w.WorkspaceID)
	}
	return sent, nil
}

// byKey makes PostgreSQL find each row by its whole key for the rest of a transaction. A statement
// must take the workspace and the webhook from the rows that it joins: with constants, PostgreSQL
// could still read all rows of the webhook.
func byKey(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `SELECT set_config(name, 'off', true) FROM unnest(ARRAY['enable_sort', 'enable_seqscan', 'enable_hashjoin', 'enable_mergejoin']) AS name`)
	if err != nil {
		return fmt.Errorf("have statements find rows by key: %w", err)
	}
	return nil
}

// sendAgain makes the deliveries of events pending if they are in one of the states, and returns
// the ids of those events. A concurrent call finds them pending already.
func sendAgain(ctx context.Context, tx pgx.Tx, w *Webhook, events []string, states []policy.State, now time.Time, retention time.Duration) ([]string, error) {
	// Without sorts, a one-value range with ORDER BY on the same columns uses the right index,
	// whatever the statistics say. An equality could read the workspace's whole log until the
	// statistics cover the workspace.
	if err := byKey(ctx, tx); err != nil {
		return nil, fmt.Errorf("send deliveries of %s again: %w", w.ID, err)
	}
	again, err := pg.Collect(ctx, tx, pgx.RowTo[string], `
		WITH chosen AS MATERIALIZED (
			SELECT d.workspace_id, d.webhook_id, d.position, d.created_at
			  FROM (SELECT DISTINCT id FROM unnest($3::text[]) AS u (id)) i
			 CROSS JOIN LATERAL (
			       SELECT e.position FROM event_log e WHERE e.workspace_id = $1 AND e.id >= i.id AND e.id <= i.id ORDER BY e.id) e
			 CROSS JOIN LATERAL (
			       SELECT d.workspace_id, d.webhook_id, d.position, d.created_at FROM webhook_delivery d
			        WHERE d.workspace_id = $1 AND d.webhook_id = $2 AND d.position >= e.position AND d.position <= e.position AND d.created_at > $6
			        ORDER BY d.position DESC, d.created_at DESC LIMIT 1) d
			 ORDER BY d.position
		), again AS (
			UPDATE webhook_delivery d SET state = 'pending', next_attempt_at = $5 FROM chosen c
			 WHERE d.workspace_id = c.workspace_id AND d.webhook_id = c.webhook_id AND d.position = c.position AND d.created_at = c.created_at AND d.state = ANY ($4)
			RETURNING d.position, d.created_at, d.event_id, jsonb_array_length(d.attempts) AS attempts
		), new AS MATERIALIZED (
			SELECT $1::text, $2::text, a.position, a.created_at, a.attempts, $5::timestamptz, true, w.epoch
			  FROM again a JOIN webhook w ON w.workspace_id = $1 AND w.webhook_id = $2
		), waiting AS (
			INSERT INTO webhook_waiting AS q (workspace_id, webhook_id, position, created_at, attempts, next_attempt_at, once, epoch)
			SELECT * FROM new
			    ON CONFLICT (workspace_id, webhook_id, position) DO UPDATE
			       SET attempts = excluded.attempts, next_attempt_at = excluded.next_attempt_at, once = true, epoch = excluded.epoch
		)
		SELECT event_id FROM again ORDER BY position`, w.WorkspaceID, w.ID, events, states, now, now.Add(-retention))
	if err != nil {
		return nil, fmt.Errorf("send deliveries of %s again: %w", w.ID, err)
	}
	return again, nil
}

// RetryNow makes the next attempt of a pending delivery at once. It takes the place of the next
// attempt in the retry schedule, so the number of attempts after it stays the same. It also works
// while the webhook is paused; the attempts after it then wait for Resume. Errors:
// *UnknownDeliveryError, ErrFinished, ErrUnderWay, ErrOff.
func (s *Store) RetryNow(ctx context.Context, deliveryID string) (*Delivery, error) {
	return changeDelivery(ctx, s, deliveryID, func(tx pgx.Tx, d *FullDelivery, w *Webhook) error {
		if d.State != policy.Pending {
			return ErrFinished
		}
		if !w.On() {
			return ErrOff
		}
		// A dispatcher sends only what is due, so a delivery that is not due is not in flight.
		// While the webhook is paused, it sends only deliveries with the current epoch.
		now := s.now()
		tag, err := tx.Exec(ctx, `
			UPDATE webhook_waiting q SET next_attempt_at = $5, epoch = w.epoch FROM webhook w
			 WHERE q.workspace_id = $1 AND q.webhook_id = $2 AND q.position = $3 AND q.created_at = $4
			   AND w.workspace_id = q.workspace_id AND w.webhook_id = q.webhook_id AND q.epoch >= `+dispatch.KeptEpoch+`
			   AND CASE w.state WHEN 'on' THEN q.next_attempt_at > $5 WHEN 'paused' THEN q.epoch < w.epoch END`,
			w.WorkspaceID, w.ID, d.Position, d.CreatedAt.Time, now)
		if err != nil {
			return fmt.Errorf("retry delivery %s now: %w", deliveryID, err)
		}
		if tag.RowsAffected() == 0 {
			return ErrUnderWay
		}
		_, err = tx.Exec(ctx, `
			UPDATE webhook_delivery SET next_attempt_at = $5
			 WHERE workspace_id = $1 AND webhook_id = $2 AND position = $3 AND created_at = $4 AND state = 'pending'`,
			w.WorkspaceID, w.ID, d.Position, d.CreatedAt.Time, now)
		if err != nil {
			return fmt.Errorf("retry delivery %s now: %w", deliveryID, err)
		}
		return audit.Add(ctx, tx, now, audit.Change{
			WorkspaceID: w.WorkspaceID, Action: audit.DeliveryRetry, ObjectID: deliveryID, ObjectName: d.EventType, Detail: "to " + w.Label(),
		})
	})
}

// changeDelivery runs do on a delivery in a transaction, notifies dispatchers, and returns the
// delivery after the change.
func changeDelivery(ctx context.Context, s *Store, deliveryID string, do func(pgx.Tx, *FullDelivery, *Webhook) error) (*Delivery, error) {
	var workspaceID string
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		d, w, err := findDelivery(ctx, s, tx, deliveryID)
		if err != nil {
			return err
		}
		workspaceID = w.WorkspaceID
		if err := mayChange(ctx, tx, workspaceID); err != nil {
			return err
		}
		return do(tx, d, w)
	})
	if err != nil {
		return nil, err
	}
	s.changed(workspaceID)
	d, err := s.Delivery(ctx, deliveryID)
	if err != nil {
		return nil, err
	}
	return &d.Delivery, nil
}
