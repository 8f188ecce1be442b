package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// scanDelivery scans deliveryColumns and sets message to the event as it is sent.
func scanDelivery(row pgx.CollectableRow, webhookID string, message *string) (Delivery, error) {
	var (
		d        Delivery
		next     *time.Time
		attempts []byte
	)
	err := row.Scan(&d.EventID, &d.EventType, &d.State, &d.CreatedAt.Time, &next, &attempts, &d.Position, message, &d.NeedsPay)
	if err != nil {
		return d, err
	}
	d.ID = d.EventID + "_" + webhookID
	d.CreatedAt.Time = d.CreatedAt.UTC()
	d.NextAttemptAt = timeOf(next)
	if err := json.Unmarshal(attempts, &d.Attempts); err != nil {
		return d, fmt.Errorf("attempts of delivery %s: %w", d.ID, err)
	}
	var event struct {
		Data struct {
			*About

			ClientID string `json:"client_id"`
		}
	}
	event.Data.About = &d.About
	if err := json.Unmarshal([]byte(*message), &event); err != nil {
		return d, fmt.Errorf("the event of delivery %s: %w", d.ID, err)
	}
	d.ClientID = event.Data.ClientID
	return d, nil
}

// webhookIDLength is the length of wh_ and a UUID.
const webhookIDLength = 3 + 36

// splitDeliveryID splits a delivery id. Both parts may contain underscores; the second one has a
// fixed length.
func splitDeliveryID(id string) (eventID, webhookID string, ok bool) {
	cut := len(id) - webhookIDLength
	if cut < 2 || id[cut-1] != '_' {
		return "", "", false
	}
	return id[:cut-1], id[cut:], true
}

// Delivery returns one delivery in full. Errors: *UnknownDeliveryError.
func (s *Store) Delivery(ctx context.Context, deliveryID string) (*FullDelivery, error) {
	var d *FullDelivery
	err := pg.InTx(ctx, s.cfg.Pool, func(tx pgx.Tx) (err error) {
		d, _, err = findDelivery(ctx, s, tx, deliveryID)
		return err
	})
	return d, err
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// findDelivery finds a delivery and its webhook by key. It calls byKey, which also applies to later
// statements of the transaction.
func findDelivery(ctx context.Context, s *Store, tx pgx.Tx, deliveryID string) (*FullDelivery, *Webhook, error) {
	eventID, webhookID, ok := splitDeliveryID(deliveryID)
	if !ok {
		return nil, nil, &UnknownDeliveryError{deliveryID}
	}
	if err := byKey(ctx, tx); err != nil {
		return nil, nil, fmt.Errorf("read delivery %s: %w", deliveryID, err)
	}
	w, err := s.get(ctx, tx, webhookID)
	var unknown *UnknownWebhookError
	if errors.As(err, &unknown) {
		return nil, nil, &UnknownDeliveryError{deliveryID}
	}
	if err != nil {
		return nil, nil, err
	}
	rows, err := tx.Query(ctx, `
		SELECT `+deliveryColumns()+`
		  FROM (SELECT * FROM event_log e WHERE e.workspace_id = $1 AND e.id BETWEEN $2 AND $2 ORDER BY e.id LIMIT 1) e
		 CROSS JOIN LATERAL (
		       SELECT * FROM webhook_delivery d
		        WHERE d.workspace_id = $1 AND d.webhook_id = $3 AND d.position BETWEEN e.position AND e.position AND d.created_at > $4
		        ORDER BY d.position DESC, d.created_at DESC LIMIT 1) d`,
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
