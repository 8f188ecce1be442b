package secretkey

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// NotReadyError says that processes that deliver webhooks do not have the new key
// yet: after a rotation they could not sign any more.
type NotReadyError struct {
	Processes int
	Key       keyring.Fingerprint
}

// Error says what to do.
func (e *NotReadyError) Error() string {
	return fmt.Sprintf("%d running processes that deliver webhooks do not have the new key %s yet: restart every process with the new key and the old one, "+
		"separated by a comma, and then run this again", e.Processes, e.Key)
}

// HeldError says that a process that delivers webhooks has a key that was to be given up.
type HeldError struct{ Key keyring.Fingerprint }

// Error says what to do.
func (e *HeldError) Error() string {
	return fmt.Sprintf("nothing was changed: the key %s is not lost, because a running process that delivers webhooks has it: "+
		"run this with the settings of that process (--config, LEDGERFEED_SECRET_KEY or its data directory)", e.Key)
}

// Rotate makes the first key of a keyring the one that seals. The others must open
// what is stored, unless giveUp: then keys that are missing are marked as lost, and
// webhooks whose secrets are sealed under them need new ones. Reseal follows. The
// error is a *MissingError, a *HeldError, or a *NotReadyError. The audit trail has a line about it.
//
// It waits for the lock for short times with pauses between them, because callers that
// make a secret queue behind it.
func Rotate(ctx context.Context, pool *pgxpool.Pool, k *keyring.Keyring, now time.Time, giveUp bool) error {
	for turn := 1; ; turn++ {
		err := rotate(ctx, pool, k, now, giveUp)
		if !pg.Locked(err) || turn == rotateTurns || !flow.Pause(ctx, rotatePause) {
			return err
		}
	}
}

const (
	rotateTurns       = 30
	rotateLockTimeout = 200 * time.Millisecond // a turn
	rotatePause       = time.Second            // between two
)

func rotate(ctx context.Context, pool *pgxpool.Pool, k *keyring.Keyring, now time.Time, giveUp bool) error {
	to := k.Fingerprints()[0]
	return pg.InLimitedTx(ctx, pool, rotateLockTimeout, func(tx pgx.Tx) error {
		s, err := lockAndRead(ctx, tx, "EXCLUSIVE", now)
		if err != nil {
			return err
		}
		missing := s.Missing(k)
		if len(missing) > 0 && !giveUp {
			return s.Check(k)
		}
		if s.Sealing != nil && *s.Sealing == to && len(missing) == 0 {
			return nil
		}
		for _, f := range missing {
			n, err := countProcesses(ctx, tx, `$1 = ANY (secret_keys)`, f)
			if err != nil {
				return err
			}
			if n > 0 {
				return &HeldError{f}
			}
		}
		n, err := countProcesses(ctx, tx, `secret_keys IS NULL OR NOT $1 = ANY (secret_keys)`, to)
		if err != nil {
			return err
		}
		if n > 0 {
			return &NotReadyError{n, to}
		}
		if err := s.replace(ctx, tx, to, now); err != nil {
			return err
		}
		for _, f := range missing {
			if err := mark(ctx, tx, f, "lost", now); err != nil {
				return err
			}
			err := audit.Add(ctx, tx, now, audit.Change{
				WorkspaceID: audit.AllWorkspaces, Action: audit.SecretKeyGiveUp, ObjectID: f.String(), Detail: fmt.Sprintf("%d secrets cannot be opened any more", s.Secrets[f]),
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	resealBatch       = 500                    // webhooks that Reseal reads at once
	resealLockTimeout = 200 * time.Millisecond // that it waits for a webhook's row
)

// Reseal seals under the database's key what is sealed under another one of the
// keyring, a webhook at a time, and returns how many webhooks it changed. What cannot
// be opened stays as it is. A webhook whose row is locked for long is passed over, and
// named in the error at the end: call it again.
func Reseal(ctx context.Context, pool *pgxpool.Pool, k *keyring.Keyring, now time.Time) (n int, err error) {
	s, err := Read(ctx, pool, now)
	if err != nil {
		return 0, err
	}
	if s.Sealing == nil {
		return 0, nil
	}
	under, ok := k.Under(*s.Sealing)
	if !ok {
		return 0, s.Check(k)
	}
	var locked error
	for after := (sealed{}); ; {
		list, err := readSealed(ctx, pool, *s.Sealing, &after)
		if err != nil {
			return n, err
		}
		if len(list) == 0 {
			return n, locked
		}
		for i := range list {
			changed, err := list[i].reseal(ctx, pool, under)
			if pg.Locked(err) {
				locked = err
				continue
			}
			if err != nil {
				return n, err
			}
			if changed {
				n++
			}
		}
		after = list[len(list)-1]
	}
}

// sealed is the secrets of a webhook.
type sealed struct {
	workspaceID, webhookID string
	secret, old            []byte
}

// readSealed reads the next webhooks with a secret that is sealed under another key.
func readSealed(ctx context.Context, pool *pgxpool.Pool, f keyring.Fingerprint, after *sealed) ([]sealed, error) {
	rows, err := pool.Query(ctx, `
		SELECT workspace_id, webhook_id, secret, old_secret FROM webhook
		 WHERE (workspace_id, webhook_id) > ($1, $2) AND (substring(secret FOR 8) <> $3 OR substring(old_secret FOR 8) <> $3)
		 ORDER BY workspace_id, webhook_id LIMIT $4`, after.workspaceID, after.webhookID, f[:], resealBatch)
	if err != nil {
		return nil, fmt.Errorf("read sealed secrets: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (w sealed, err error) {
		err = row.Scan(&w.workspaceID, &w.webhookID, &w.secret, &w.old)
		return w, err
	})
	if err != nil {
		return nil, fmt.Errorf("read sealed secrets: %w", err)
	}
	return list, nil
}

// reseal seals the secrets under the first key of the keyring.
func (w *sealed) reseal(ctx context.Context, pool *pgxpool.Pool, k *keyring.Keyring) (bool, error) {
	secret, old := w.again(k, w.secret), w.again(k, w.old)
	if slices.Equal(secret, w.secret) && slices.Equal(old, w.old) {
		return false, nil
	}
	// Only if it was not rotated since it was read.
	changed := false
	send := &pgx.Batch{} // one transaction
	send.Queue(`SELECT set_config('lock_timeout', $1, true)`, pg.Milliseconds(resealLockTimeout))
	send.Queue(`
		UPDATE webhook SET secret = $3, old_secret = $4
		 WHERE workspace_id = $1 AND webhook_id = $2 AND secret = $5 AND old_secret IS NOT DISTINCT FROM $6`,
		w.workspaceID, w.webhookID, secret, old, w.secret, w.old).Exec(func(tag pgconn.CommandTag) error {
		changed = tag.RowsAffected() > 0
		return nil
	})
	if err := pool.SendBatch(ctx, send).Close(); err != nil {
		return false, fmt.Errorf("re-seal the secret of %s: %w", w.webhookID, err)
	}
	return changed, nil
}

// again seals a secret under the first key. One that cannot be opened stays as it is.
func (w *sealed) again(k *keyring.Keyring, box []byte) []byte {
	if box == nil || k.Current(box) {
		return box
	}
	secret, err := k.Open(w.workspaceID, w.webhookID, box)
	if err != nil {
		return box
	}
	return k.Seal(w.workspaceID, w.webhookID, secret)
}
