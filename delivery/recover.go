package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// Recovery is what Recover sends, or would send: the deliveries of events that were published at or
// after Since and before Until.
type Recovery struct {
	Since Time  `json:"since"`
	Until *Time `json:"until"` // nil: now

	Pending int64 `json:"pending"` // become due now
	Failed  int64 `json:"failed"`  // ended without success, and are sent again

	// Refused says why Recover would refuse now, ErrOff or ErrPaused; nil: it would not.
	Refused error `json:"-"`
}

// CountRecovery counts what Recover would send. Errors: *UnknownWebhookError, *SinceError.
func (s *Store) CountRecovery(ctx context.Context, webhookID string, since time.Time, until *time.Time) (*Recovery, error) {
	var r *Recovery
	err := s.inTx(ctx, func(tx pgx.Tx) (err error) {
		r, _, err = s.recovery(ctx, tx, webhookID, since, until)
		return err
	})
	return r, err
}

// recovery finds and counts what Recover sends. It leaves the webhook's row locked.
func (s *Store) recovery(ctx context.Context, tx pgx.Tx, webhookID string, since time.Time, until *time.Time) (r *Recovery, w *dispatch.Window, err error) {
	now := s.now()
	r = &Recovery{Since: Time{since.UTC()}}
	if until != nil {
		r.Until = &Time{until.UTC()}
	}
	switch {
	case since.After(now):
		return nil, nil, &SinceError{"the time is in the future"}
	case since.Before(now.Add(-s.cfg.Settings.Retention)):
		return nil, nil, &SinceError{"deliveries are kept for " + texts.Duration(s.cfg.Settings.Retention)}
	case until != nil && !until.After(since):
		return nil, nil, &SinceError{"the end is not after the start"}
	}
	w = &dispatch.Window{WebhookID: webhookID}
	if w.WorkspaceID, err = workspaceOf(ctx, tx, webhookID); err != nil {
		return nil, nil, err
	}
	var state string
	err = tx.QueryRow(ctx, `
		SELECT w.state, coalesce(log_position_since(w.workspace_id, $2), h.position + 1) - 1, coalesce(log_position_since(w.workspace_id, $4), h.position + 1) - 1
		  FROM webhook w JOIN log_head h ON h.workspace_id = w.workspace_id
		 WHERE w.workspace_id = $3 AND w.webhook_id = $1 FOR NO KEY UPDATE OF w`, webhookID, since, w.WorkspaceID, until).Scan(&state, &w.After, &w.To)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil, &UnknownWebhookError{webhookID}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("find what to recover of %s: %w", webhookID, err)
	}
	if err := byKey(ctx, tx); err != nil {
		return nil, nil, err
	}
	if r.Pending, r.Failed, err = w.Count(ctx, tx, now.Add(-s.cfg.Settings.Retention)); err != nil {
		return nil, nil, err
	}
	switch state {
	case "off":
		r.Refused = ErrOff
	case "paused":
		r.Refused = ErrPaused
	}
	return r, w, nil
}

// Recover sends a webhook's deliveries of events that were published at or after since and before until,
// oldest first and within the webhook's limit on attempts in flight. Pending deliveries become due now.
// Failed and cancelled ones become pending again, and their retry schedule starts over. Deliveries that
// succeeded are not sent. Recover works in several transactions; after a crash, call it again. Errors:
// *UnknownWebhookError, *SinceError, ErrOff, ErrPaused.
func (s *Store) Recover(ctx context.Context, webhookID string, since time.Time, until *time.Time) (*Recovery, error) {
	var (
		r    *Recovery
		left *dispatch.Window
	)
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		found, w, err := s.recovery(ctx, tx, webhookID, since, until)
		if err != nil {
			return err
		}
		if found.Refused != nil {
			return found.Refused
		}
		if err := mayChange(ctx, tx, w.WorkspaceID); err != nil {
			return err
		}
		if err := historyIsWhole(ctx, tx, w.WorkspaceID); err != nil {
			return err
		}
		r, left = found, w
		if r.Pending+r.Failed == 0 {
			return nil
		}
		of := &named{workspaceID: w.WorkspaceID, id: webhookID}
		if err := tx.QueryRow(ctx, `SELECT url, name FROM webhook WHERE workspace_id = $1 AND webhook_id = $2`, w.WorkspaceID, webhookID).Scan(&of.url, &of.name); err != nil {
			return fmt.Errorf("recover %s: %w", webhookID, err)
		}
		return s.addToAudit(ctx, tx, audit.WebhookRecover, of, texts.Count(r.Pending, "waiting message", "waiting messages")+" and "+texts.Count(r.Failed, "failed one", "failed ones")+" since "+r.Since.Format(time.RFC3339))
	})
	if err != nil || r.Pending+r.Failed == 0 {
		return r, err
	}
	// With one time for all, they are in the order of their events. What failed comes first: an attempt
	// that fails meanwhile must not be sent twice.
	now, pending := s.now(), *left
	steps := []func(pgx.Tx) (int, error){
		func(tx pgx.Tx) (int, error) {
			return left.SendFailed(ctx, tx, now, now.Add(-s.cfg.Settings.Retention))
		},
		func(tx pgx.Tx) (int, error) { return pending.MakePendingDue(ctx, tx, now, false) },
	}
	for _, step := range steps {
		for n := dispatch.RecoverChunk; n == dispatch.RecoverChunk; {
			err := s.inTx(ctx, func(tx pgx.Tx) (err error) {
				if err := byKey(ctx, tx); err != nil {
					return err
				}
				n, err = step(tx)
				return err
			})
			if err != nil {
				return nil, err
			}
			s.changed(left.WorkspaceID)
		}
	}
	return r, nil
}
