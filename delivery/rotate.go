package delivery

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
)

// MaxSecrets is how many secrets may sign a webhook's messages at the same time: the current one
// and the old ones that have not expired.
const MaxSecrets = 5

// SecretsError means that MaxSecrets secrets sign already. A rotation would end one of them before
// the time that an earlier rotation promised.
type SecretsError struct {
	Until time.Time // when the first of them expires
}

// Error says when the secret can be rotated again.
func (e *SecretsError) Error() string {
	return fmt.Sprintf("the webhook has %d secrets that sign, and cannot have more: rotate again after %s, when the first of them ends", MaxSecrets, readableEnd(e.Until))
}

// readableEnd formats a time as readableTime does, but rounded up to the minute, so that the secret
// has expired by then.
func readableEnd(t time.Time) string { return readableTime(t.Add(time.Minute - time.Nanosecond)) }

// RotateSecret gives a webhook a new secret, which cannot be read again later. During the overlap
// the old secret also signs, unless its key is lost. Secrets from earlier rotations also sign until
// the end that was promised for each. Errors: *UnknownWebhookError, *SecretsError,
// *keyring.MissingError.
func (s *Store) RotateSecret(ctx context.Context, webhookID string) (*WithSecret, error) {
	secret, err := attempt.NewSecret(s.cfg.Random)
	if err != nil {
		return nil, err
	}
	err = s.change(ctx, webhookID, func(tx pgx.Tx, w *named) error {
		sealed, err := s.seal(ctx, tx, w.workspaceID, w.id, secret)
		if err != nil {
			return err
		}
		now := s.now()
		signing, err := s.signing(ctx, tx, w, now)
		if err != nil {
			return err
		}
		if len(signing.boxes) >= MaxSecrets {
			ends := signing.until
			if signing.current {
				ends = ends[1:] // the current secret expires only after a rotation
			}
			return &SecretsError{slices.MinFunc(ends, time.Time.Compare)}
		}
		detail := "the old one cannot be opened"
		if signing.current {
			detail = "the old one ends " + signing.until[0].Format(time.RFC3339)
		}
		var (
			old    []byte
			end    *time.Time
			boxes  = [][]byte{}
			untils = []time.Time{}
		)
		if len(signing.boxes) > 0 {
			old, end = signing.boxes[0], &signing.until[0]
			boxes, untils = append(boxes, signing.boxes[1:]...), append(untils, signing.until[1:]...)
		}
		_, err = tx.Exec(ctx, `
			UPDATE webhook SET version = version + 1, secret = $3, old_secret = $4, old_secret_until = $5, older_secrets = $6, older_secrets_until = $7
			 WHERE workspace_id = $1 AND webhook_id = $2`,
			w.workspaceID, w.id, sealed, old, end, boxes, untils)
		if err != nil {
			return fmt.Errorf("rotate the secret of webhook %s: %w", webhookID, err)
		}
		return s.addToAudit(ctx, tx, audit.WebhookRotateSecret, w, detail)
	})
	if err != nil {
		return nil, err
	}
	w, err := s.Get(ctx, webhookID)
	if err != nil {
		return nil, err
	}
	return &WithSecret{Webhook: *w, Secret: secret}, nil
}

// secrets are the sealed secrets that sign alongside a new one, newest first, and when each
// expires.
type secrets struct {
	boxes   [][]byte
	until   []time.Time
	current bool // the first one is the secret that was current
}

// signing returns the secrets that would still sign if the webhook's secret were rotated now. It
// leaves out secrets that cannot be opened.
func (s *Store) signing(ctx context.Context, tx pgx.Tx, w *named, now time.Time) (*secrets, error) {
	var (
		current, old []byte
		oldUntil     *time.Time
		older        [][]byte
		olderUntil   []time.Time
	)
	err := tx.QueryRow(ctx, `
		SELECT secret, old_secret, old_secret_until, older_secrets, older_secrets_until FROM webhook WHERE workspace_id = $1 AND webhook_id = $2`,
		w.workspaceID, w.id).Scan(&current, &old, &oldUntil, &older, &olderUntil)
	if err != nil {
		return nil, fmt.Errorf("read the secrets of webhook %s: %w", w.id, err)
	}
	list := &secrets{}
	add := func(box []byte, until time.Time) bool {
		if _, err := s.cfg.Keyring.Open(w.workspaceID, w.id, box); err != nil || !until.After(now) {
			return false
		}
		list.boxes, list.until = append(list.boxes, box), append(list.until, until.UTC())
		return true
	}
	list.current = add(current, now.Add(s.cfg.Settings.SecretOverlap))
	if old != nil && oldUntil != nil {
		add(old, *oldUntil)
	}
	for i, box := range older {
		add(box, olderUntil[i])
	}
	return list, nil
}
