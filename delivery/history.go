package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
)

// scanDelivery reads deliveryColumns; message is set to the event as it is sent.
func scanDelivery(row pgx.CollectableRow, webhookID string, message *string) (Delivery, error) {
	var (
		d        Delivery
		next     *time.Time
		attempts []byte
	)
	err := row.Scan(&d.EventID, &d.EventType, &d.State, &d.CreatedAt.Time, &next, &attempts, &d.position, message)
	if err != nil {
		return d, err
	}
	d.ID = d.EventID + "_" + webhookID
	d.CreatedAt.Time = d.CreatedAt.UTC()
	d.NextAttemptAt = timeOf(next)
	if err := json.Unmarshal(attempts, &d.Attempts); err != nil {
		return d, fmt.Errorf("attempts of delivery %s: %w", d.ID, err)
	}
	var event struct{ Data *About }
	event.Data = &d.About
	if err := json.Unmarshal([]byte(*message), &event); err != nil {
		return d, fmt.Errorf("the event of delivery %s: %w", d.ID, err)
	}
	return d, nil
}

// webhookIDLength is the length of wh_ and a UUID.
const webhookIDLength = 3 + 36

// splitDeliveryID splits a delivery id. Both parts may hold underscores; the
// second one has a fixed length.
func splitDeliveryID(id string) (eventID, webhookID string, ok bool) {
	cut := len(id) - webhookIDLength
	if cut < 2 || id[cut-1] != '_' {
		return "", "", false
	}
	return id[:cut-1], id[cut:], true
}

// Delivery returns one delivery in full. Errors: *UnknownDeliveryError.
func (s *Store) Delivery(ctx context.Context, deliveryID string) (*FullDelivery, error) {
	d, _, err := s.delivery(ctx, s.cfg.Pool, deliveryID)
	return d, err
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func (s *Store) delivery(ctx context.Context, db querier, deliveryID string) (*FullDelivery, *Webhook, error) {
	eventID, webhookID, ok := splitDeliveryID(deliveryID)
	if !ok {
		return nil, nil, &UnknownDeliveryError{deliveryID}
	}
	w, err := s.Get(ctx, webhookID)
	var unknown *UnknownWebhookError
	if errors.As(err, &unknown) {
		return nil, nil, &UnknownDeliveryError{deliveryID}
	}
	if err != nil {
		return nil, nil, err
	}
	rows, err := db.Query(ctx, `
		SELECT `+deliveryColumns+`
		  FROM event_log e
		  JOIN webhook_delivery d ON d.workspace_id = e.workspace_id AND d.webhook_id = $3 AND d.position = e.position AND d.created_at > $4
		 WHERE e.workspace_id = $1 AND e.id = $2
		 ORDER BY d.created_at DESC LIMIT 1`,
		w.WorkspaceID, eventID, webhookID, s.now().Add(-s.cfg.Settings.Retention))
	if err != nil {
		return nil, nil, fmt.Errorf("read delivery %s: %w", deliveryID, err)
	}
	full := &FullDelivery{WebhookID: webhookID, URL: w.URL}
	full.Delivery, err = pgx.CollectOneRow(rows, func(row pgx.CollectableRow) (Delivery, error) {
		return scanDelivery(row, webhookID, &full.Body)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil, &UnknownDeliveryError{deliveryID}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read delivery %s: %w", deliveryID, err)
	}
	return full, w, nil
}

// Resend makes one new attempt of a finished delivery at once, under the same id.
// It works for a webhook that is off, so that a repaired receiver can be tried. If
// the attempt fails, the delivery is failed again, without retries. Errors:
// *UnknownDeliveryError, ErrNotFinished.
func (s *Store) Resend(ctx context.Context, deliveryID string) (*Delivery, error) {
	var workspaceID string
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		d, w, err := s.delivery(ctx, tx, deliveryID)
		if err != nil {
			return err
		}
		if d.State == policy.Pending {
			return ErrNotFinished
		}
		workspaceID = w.WorkspaceID
		now := s.now()
		tag, err := tx.Exec(ctx, `
			UPDATE webhook_delivery SET state = 'pending', next_attempt_at = $5
			 WHERE workspace_id = $1 AND webhook_id = $2 AND position = $3 AND created_at = $4 AND state <> 'pending'`,
			workspaceID, w.ID, d.position, d.CreatedAt.Time, now)
		if err != nil {
			return fmt.Errorf("send delivery %s again: %w", deliveryID, err)
		}
		if tag.RowsAffected() == 0 {
			return ErrNotFinished // another call was first
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO webhook_waiting AS q (workspace_id, webhook_id, position, created_at, attempts, next_attempt_at, once, epoch)
			SELECT $1, $2, $3, $4, $5, $6, true, epoch FROM webhook WHERE workspace_id = $1 AND webhook_id = $2
			    ON CONFLICT (workspace_id, webhook_id, position) DO UPDATE
			       SET attempts = excluded.attempts, next_attempt_at = excluded.next_attempt_at, once = true, epoch = excluded.epoch`,
			workspaceID, w.ID, d.position, d.CreatedAt.Time, len(d.Attempts), now)
		if err != nil {
			return fmt.Errorf("send delivery %s again: %w", deliveryID, err)
		}
		return audit.Add(ctx, tx, now, audit.Change{
			WorkspaceID: workspaceID, Action: audit.DeliveryResend, ObjectID: deliveryID, ObjectName: d.EventType, Detail: "to " + w.Label(),
		})
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
