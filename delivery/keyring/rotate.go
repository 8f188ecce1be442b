package keyring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/plural"
)

// NotReadyError says that processes that deliver webhooks do not have the new key
// yet: after a rotation they could not sign any more.
type NotReadyError struct {
	Processes int
	Key       Fingerprint
}

// Error says what to do.
func (e *NotReadyError) Error() string {
	return fmt.Sprintf("%s the new key %s yet: restart every process with the new key and the old one, "+
		"separated by a comma, and then run this again", plural.Of(e.Processes, "running process that delivers webhooks does not have", "running processes that deliver webhooks do not have"), e.Key)
}

// HeldError says that a process that delivers webhooks has a key that was to be given up.
type HeldError struct{ Key Fingerprint }

// Error says what to do.
func (e *HeldError) Error() string {
	return fmt.Sprintf("nothing was changed: the key %s is not lost, because a running process that delivers webhooks has it: "+
		"run this with the settings of that process (--config, LEDGERFEED_SECRET_KEY or its data directory)", e.Key)
}

// Rotate makes the first key of a keyring the one that seals. The others must open
// what is stored, except those to give up: if they are missing, they are marked as lost, and
// webhooks whose secrets are sealed under them need new ones. Another key that is missing is
// never given up, because nobody was asked about it. Reseal follows. The
// error is a *MissingError, a *HeldError, or a *NotReadyError. The audit trail has a line about it.
//
// It waits for the lock for short times with pauses between them, because callers that
// make a secret queue behind it.
func Rotate(ctx context.Context, pool *pgxpool.Pool, k *Keyring, now time.Time, giveUp []Fingerprint) error {
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

func rotate(ctx context.Context, pool *pgxpool.Pool, k *Keyring, now time.Time, giveUp []Fingerprint) error {
	to := k.Fingerprints()[0]
	return pg.InLimitedTx(ctx, pool, rotateLockTimeout, func(tx pgx.Tx) error {
		s, err := lockAndRead(ctx, tx, "EXCLUSIVE", now)
		if err != nil {
			return err
		}
		missing := s.Missing(k)
		if slices.ContainsFunc(missing, func(f Fingerprint) bool { return !slices.Contains(giveUp, f) }) {
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
		n, err := countProcesses(ctx, tx, `NOT $1 = ANY (secret_keys)`, to)
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
				WorkspaceID: audit.AllWorkspaces, Action: audit.SecretKeyGiveUp, ObjectID: f.String(), Detail: plural.Of(s.Secrets[f], "secret", "secrets") + " cannot be opened any more",
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

// errReplaced says that another key has become the one that seals.
var errReplaced = errors.New("another key seals by now")

// Reseal seals under the database's key what is sealed under another one of the
// keyring, a webhook at a time, and returns how many webhooks it changed. What cannot
// be opened stays as it is. A webhook whose row is locked for long is passed over, and
// named in the error at the end: call it again. If another key becomes the one that seals
// meanwhile, it begins again with that key.
func Reseal(ctx context.Context, pool *pgxpool.Pool, k *Keyring, now time.Time) (n int, err error) {
	for {
		s, err := Read(ctx, pool, now)
		if err != nil {
			return n, err
		}
		if s.Sealing == nil {
			return n, nil
		}
		under, ok := k.Under(*s.Sealing)
		if !ok {
			return n, s.Check(k)
		}
		changed, err := resealUnder(ctx, pool, under)
		n += changed
		if !errors.Is(err, errReplaced) {
			return n, err
		}
	}
}

// resealUnder is Reseal under the first key of the keyring; errReplaced if that key does not
// seal any more.
func resealUnder(ctx context.Context, pool *pgxpool.Pool, under *Keyring) (n int, err error) {
	var locked error
	for after := (webhook{}); ; {
		list, err := readSealed(ctx, pool, under.Fingerprints()[0], after)
		if err != nil {
			return n, err
		}
		if len(list) == 0 {
			return n, locked
		}
		for _, w := range list {
			changed, err := w.reseal(ctx, pool, under)
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

// webhook names a webhook with a secret to seal again.
type webhook struct{ workspaceID, id string }

// readSealed reads the next webhooks with a secret that is sealed under another key.
func readSealed(ctx context.Context, pool *pgxpool.Pool, f Fingerprint, after webhook) ([]webhook, error) {
	rows, err := pool.Query(ctx, `
		SELECT workspace_id, webhook_id FROM webhook
		 WHERE (workspace_id, webhook_id) > ($1, $2) AND (substring(secret FOR 8) <> $3 OR substring(old_secret FOR 8) <> $3
		        OR EXISTS (SELECT FROM unnest(older_secrets) AS o (secret) WHERE substring(o.secret FOR 8) <> $3))
		 ORDER BY workspace_id, webhook_id LIMIT $4`, after.workspaceID, after.id, f[:], resealBatch)
	if err != nil {
		return nil, fmt.Errorf("read which secrets to seal again: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (w webhook, err error) {
		err = row.Scan(&w.workspaceID, &w.id)
		return w, err
	})
	if err != nil {
		return nil, fmt.Errorf("read which secrets to seal again: %w", err)
	}
	return list, nil
}

// reseal seals the secrets under the first key of the keyring; errReplaced if that key does
// not seal any more. It reads and writes them under two locks:
//   - No rotation comes in between, after which nobody may seal under this key.
//   - Nobody changes the row in between. A new secret for the webhook leaves the one before it
//     behind as the old one, under whichever key that was sealed.
func (w webhook) reseal(ctx context.Context, pool *pgxpool.Pool, k *Keyring) (changed bool, err error) {
	err = pg.InLimitedTx(ctx, pool, resealLockTimeout, func(tx pgx.Tx) error {
		if err := lockState(ctx, tx, "ROW SHARE"); err != nil {
			return err
		}
		f := k.Fingerprints()[0]
		var seals bool
		err := tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM secret_key WHERE workspace_id = '*' AND state = 'sealing' AND fingerprint = $1)`, f[:]).Scan(&seals)
		if err != nil {
			return fmt.Errorf("look for the secret key that seals: %w", err)
		}
		if !seals {
			return errReplaced
		}
		var (
			before, oldBefore []byte
			olderBefore       [][]byte
		)
		err = tx.QueryRow(ctx, `
			SELECT secret, old_secret, older_secrets FROM webhook WHERE workspace_id = $1 AND webhook_id = $2 FOR NO KEY UPDATE`, w.workspaceID, w.id).Scan(&before, &oldBefore, &olderBefore)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // it was deleted
		}
		if err != nil {
			return fmt.Errorf("read the secret of %s: %w", w.id, err)
		}
		secret, old := w.again(k, before), w.again(k, oldBefore)
		older := make([][]byte, len(olderBefore))
		for i, box := range olderBefore {
			older[i] = w.again(k, box)
		}
		if slices.Equal(secret, before) && slices.Equal(old, oldBefore) && slices.EqualFunc(older, olderBefore, slices.Equal) {
			return nil
		}
		_, err = tx.Exec(ctx, `UPDATE webhook SET secret = $3, old_secret = $4, older_secrets = $5 WHERE workspace_id = $1 AND webhook_id = $2`, w.workspaceID, w.id, secret, old, older)
		if err != nil {
			return fmt.Errorf("write it: %w", err)
		}
		changed = true
		return nil
	})
	if err != nil && !errors.Is(err, errReplaced) {
		err = fmt.Errorf("seal the secret of %s again: %w", w.id, err)
	}
	return changed && err == nil, err
}

// again seals a secret under the first key. One that cannot be opened stays as it is.
func (w webhook) again(k *Keyring, box []byte) []byte {
	if box == nil || k.Current(box) {
		return box
	}
	secret, err := k.Open(w.workspaceID, w.id, box)
	if err != nil {
		return box
	}
	return k.Seal(w.workspaceID, w.id, secret)
}
