// This file keeps track of the key under which a database's webhook secrets are sealed. The key
// itself is outside the database (LEDGERFEED_SECRET_KEY, or a file in the data directory). The
// database holds only its fingerprint, so that a process with another key gets a clear error.
// Otherwise the process would seal secrets that others cannot open, or fail to open theirs.

package keyring

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// State is what a database records about its keys.
type State struct {
	Sealing *Fingerprint        // the key that seals new secrets; nil: none was ever used
	Secrets map[Fingerprint]int // how many secrets in use each key seals
	Lost    []Fingerprint       // keys given up: secrets sealed under them can no longer be opened
}

// ReadState reads the state. It counts old secrets until their overlap ends.
func ReadState(ctx context.Context, db pg.Querier, now time.Time) (*State, error) {
	s := &State{Secrets: map[Fingerprint]int{}}
	var (
		key   []byte
		state string
		n     int
	)
	const states = `
		SELECT fingerprint, state, 0 FROM secret_key WHERE workspace_id = '*' AND state <> 'former'
		 UNION ALL
		SELECT s.key, 'stored', count(*) FROM (
		       SELECT substring(secret FOR 8) AS key FROM webhook
		        UNION ALL
		       SELECT substring(old_secret FOR 8) FROM webhook WHERE old_secret IS NOT NULL AND old_secret_until > $1
		        UNION ALL
		       SELECT substring(o.secret FOR 8) FROM webhook, unnest(older_secrets, older_secrets_until) AS o (secret, until) WHERE o.until > $1) s
		 GROUP BY s.key`
	err := pg.ForEach(ctx, db, states, []any{now}, []any{&key, &state, &n}, func() error {
		var f Fingerprint
		copy(f[:], key)
		switch state {
		case "sealing":
			s.Sealing = &f
		case "lost":
			s.Lost = append(s.Lost, f)
		default:
			s.Secrets[f] = n
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the fingerprints of the secret keys: %w", err)
	}
	return s, nil
}

// Unused reports whether no sealed secret could still be opened, so that another key may replace
// the current one.
func (s *State) Unused() bool {
	for f, n := range s.Secrets {
		if n > 0 && !slices.Contains(s.Lost, f) {
			return false
		}
	}
	return true
}

// Missing returns the keys that a process must have and k lacks: the key that seals, and every key
// under which secrets are sealed, except keys given up. A nil k has no keys.
func (s *State) Missing(k *Keyring) []Fingerprint {
	need := maps.Clone(s.Secrets)
	for _, lost := range s.Lost {
		delete(need, lost)
	}
	if s.Sealing != nil {
		need[*s.Sealing] = max(need[*s.Sealing], 0)
	}
	if k != nil {
		for _, have := range k.Fingerprints() {
			delete(need, have)
		}
	}
	return slices.SortedFunc(maps.Keys(need), Fingerprint.Compare)
}

// Check returns a *MissingError if k lacks a key. A nil k has no keys.
func (s *State) Check(k *Keyring) error {
	missing := s.Missing(k)
	if len(missing) == 0 {
		return nil
	}
	e := &MissingError{Missing: missing}
	for _, f := range missing {
		e.Secrets += s.Secrets[f]
	}
	return e
}

// MissingError says that a process lacks keys of its database.
type MissingError struct {
	Missing []Fingerprint
	Secrets int    // how many cannot be opened without them
	Reason  string // why there is no key at all; empty: there are keys, but not the right ones
}

// Error names the keys, and says what to do.
func (e *MissingError) Error() string {
	names := make([]string, len(e.Missing))
	for i, f := range e.Missing {
		names[i] = f.String()
	}
	what := "the keys for webhooks' secrets do not fit"
	if e.Reason != "" {
		what = e.Reason
	}
	return fmt.Sprintf("%s: this database needs the key with the fingerprint %s (secrets sealed under it: %d); "+
		"set LEDGERFEED_SECRET_KEY to the key used before, several separated by commas, or put its file back into the data directory; "+
		"ledgerfeed secret-key rotate --help says what can be done if it is lost for good", what, strings.Join(names, " and "), e.Secrets)
}

// Sealing returns k with the database's own key as the one that seals, for a transaction that seals
// something. The key cannot be rotated until the transaction ends. If the database has no key yet,
// the first key of k becomes its key. The error is a *MissingError if k lacks the database's key.
func Sealing(ctx context.Context, tx pgx.Tx, k *Keyring, now time.Time) (*Keyring, error) {
	s, err := ReadState(ctx, tx, now)
	if err != nil {
		return nil, err
	}
	if s.Sealing == nil {
		if err := Register(ctx, tx, k, now); err != nil {
			return nil, err
		}
	}
	if s, err = lockAndRead(ctx, tx, toMake, now); err != nil {
		return nil, err
	}
	if s.Sealing == nil {
		return nil, errors.New("the database has no secret key although one was just registered")
	}
	under, ok := k.Under(*s.Sealing)
	if !ok {
		return nil, &MissingError{Missing: []Fingerprint{*s.Sealing}, Secrets: s.Secrets[*s.Sealing]}
	}
	return under, nil
}

// Hold checks that k has the key that seals, in a transaction that tells other processes about its
// keys. The key cannot be rotated until the transaction ends. A rotation either comes before and
// Hold sees it, or it comes after and sees the keys of this process. The error is a *MissingError
// if k lacks the key.
func Hold(ctx context.Context, tx pgx.Tx, k *Keyring, now time.Time) error {
	s, err := lockAndRead(ctx, tx, toMake, now)
	if err != nil || s.Sealing == nil {
		return err
	}
	if _, ok := k.Under(*s.Sealing); !ok {
		return &MissingError{Missing: []Fingerprint{*s.Sealing}, Secrets: s.Secrets[*s.Sealing]}
	}
	return nil
}

// Register makes the first key of k the database's own key, unless the database has one. The error
// is a *MissingError if k lacks a key. Register replaces a key under which no secret is sealed,
// unless a delivering process has it. If several processes call it at once with different keys, one
// key wins and the other processes get an error when they seal.
func Register(ctx context.Context, tx pgx.Tx, k *Keyring, now time.Time) error {
	s, err := ReadState(ctx, tx, now)
	if err != nil {
		return err
	}
	if err := s.Check(k); err == nil && s.Sealing != nil || err != nil && !s.Unused() {
		return err
	}
	if s, err = lockAndRead(ctx, tx, toChange, now); err != nil { // another process may have been faster
		return err
	}
	first, check := k.Fingerprints()[0], s.Check(k)
	switch {
	case s.Sealing == nil && check == nil:
		return mark(ctx, tx, first, "sealing", now)
	case check == nil || !s.Unused():
		return check
	}
	n, err := countProcesses(ctx, tx, `$1 = ANY (secret_keys)`, *s.Sealing)
	if err != nil {
		return err
	}
	if n > 0 {
		return check
	}
	return s.replace(ctx, tx, first, now)
}

// Statements that lock the state. Callers that make a secret take ROW SHARE, which many can hold at
// the same time. Callers that change the state take EXCLUSIVE, which waits for ROW SHARE and keeps it
// out. A transaction that needs both takes EXCLUSIVE first.
const (
	// This takes ROW SHARE, and locks no row, because no fingerprint is empty. Unlike LOCK TABLE, it
	// concerns this database alone, wherever its tables are.
	toMake   = `SELECT FROM secret_key WHERE workspace_id = '*' AND fingerprint = '' FOR KEY SHARE`
	toChange = `LOCK TABLE secret_key IN EXCLUSIVE MODE`
)

// lockAndRead locks the state until the end of the transaction, and reads it.
func lockAndRead(ctx context.Context, tx pgx.Tx, lock string, now time.Time) (*State, error) {
	if err := lockState(ctx, tx, lock); err != nil {
		return nil, err
	}
	return ReadState(ctx, tx, now)
}

func lockState(ctx context.Context, tx pgx.Tx, lock string) error {
	if _, err := tx.Exec(ctx, lock); err != nil {
		return fmt.Errorf("lock the fingerprints of the secret keys: %w", err)
	}
	return nil
}

// replace makes another key the one that seals, and adds a line to the audit trail. The caller has
// locked the state.
func (s *State) replace(ctx context.Context, tx pgx.Tx, to Fingerprint, now time.Time) error {
	if _, err := tx.Exec(ctx, `UPDATE secret_key SET state = 'former', since = $1 WHERE workspace_id = '*' AND state = 'sealing'`, now); err != nil {
		return fmt.Errorf("replace the secret key: %w", err)
	}
	if err := mark(ctx, tx, to, "sealing", now); err != nil {
		return err
	}
	c := audit.Change{WorkspaceID: audit.AllWorkspaces, Action: audit.SecretKeyRotate, ObjectID: to.String()}
	if s.Sealing != nil {
		c.Detail = "before: " + s.Sealing.String()
	}
	return audit.Add(ctx, tx, now, c)
}

func mark(ctx context.Context, tx pgx.Tx, f Fingerprint, state string, now time.Time) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO secret_key (workspace_id, fingerprint, state, since) VALUES ('*', $1, $2, $3)
		    ON CONFLICT (workspace_id, fingerprint) DO UPDATE SET state = excluded.state, since = excluded.since`, f[:], state, now)
	if err != nil {
		return fmt.Errorf("mark the secret key %s as %s: %w", f, state, err)
	}
	return nil
}

// countProcesses counts the delivering processes that meet a condition. $1 in the condition is the
// key.
func countProcesses(ctx context.Context, tx pgx.Tx, condition string, f Fingerprint) (n int, err error) {
	err = tx.QueryRow(ctx, `
		SELECT count(*) FROM webhook_instance WHERE workspace_id = '*' AND lease_until > clock_timestamp() AND (`+condition+`)`, f[:]).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("look for processes that deliver, and their secret keys: %w", err)
	}
	return n, nil
}

// NotReadyError says that delivering processes do not have the new key yet. After a rotation they
// could no longer sign.
type NotReadyError struct {
	Processes int
	Key       Fingerprint
}

// Error says what to do.
func (e *NotReadyError) Error() string {
	return fmt.Sprintf("%s the new key %s yet: restart every process with the new key and the old one, "+
		"separated by a comma, and then run this again", texts.Count(e.Processes, "running process that delivers webhooks does not have", "running processes that deliver webhooks do not have"), e.Key)
}

// HeldError says that a delivering process has a key that was to be given up.
type HeldError struct{ Key Fingerprint }

// Error says what to do.
func (e *HeldError) Error() string {
	return fmt.Sprintf("nothing was changed: the key %s is not lost, because a running process that delivers webhooks has it: "+
		"run this with the settings of that process (--config, LEDGERFEED_SECRET_KEY or its data directory)", e.Key)
}

// Rotate makes the first key of k the one that seals, and adds a line to the audit trail. Call
// Reseal afterwards. k must have all keys that stored secrets need, except those in giveUp. Rotate
// marks missing keys in giveUp as lost; webhooks whose secrets are sealed under them need new
// secrets. It never gives up another missing key, because nobody was asked about it. The error is a
// *MissingError, a *HeldError, or a *NotReadyError.
//
// Rotate waits for the lock in short turns with pauses between them, because callers that make a
// secret queue behind it.
func Rotate(ctx context.Context, pool pg.DB, k *Keyring, now time.Time, giveUp []Fingerprint) error {
	for turn := 1; ; turn++ {
		err := rotate(ctx, pool, k, now, giveUp)
		if !pg.Locked(err) || turn == rotateTurns || !flow.Sleep(ctx, rotatePause) {
			return err
		}
	}
}

const (
	rotateTurns       = 30
	rotateLockTimeout = 200 * time.Millisecond // per turn
	rotatePause       = time.Second            // between turns
)

func rotate(ctx context.Context, pool pg.DB, k *Keyring, now time.Time, giveUp []Fingerprint) error {
	to := k.Fingerprints()[0]
	return pg.InLimitedTx(ctx, pool, rotateLockTimeout, func(tx pgx.Tx) error {
		s, err := lockAndRead(ctx, tx, toChange, now)
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
				WorkspaceID: audit.AllWorkspaces, Action: audit.SecretKeyGiveUp, ObjectID: f.String(), Detail: texts.Count(s.Secrets[f], "secret", "secrets") + " cannot be opened any more",
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
	resealLockTimeout = 200 * time.Millisecond // how long it waits for a webhook's row
)

// errReplaced says that another key has become the one that seals.
var errReplaced = errors.New("another key seals by now")

// Reseal seals under the database's key all secrets that are sealed under another key of k, one
// webhook at a time, and returns how many webhooks it changed. It leaves secrets that cannot be
// opened as they are. It skips webhooks whose rows stay locked, and at the end returns an error
// about one of them; call it again then. If another key becomes the one that seals meanwhile,
// Reseal starts again with that key.
func Reseal(ctx context.Context, pool pg.DB, k *Keyring, now time.Time) (n int, err error) {
	for {
		s, err := ReadState(ctx, pool, now)
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

// resealUnder is Reseal under the first key of the keyring. It returns errReplaced if that key no
// longer seals.
func resealUnder(ctx context.Context, pool pg.DB, under *Keyring) (n int, err error) {
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
type webhook struct{ WorkspaceID, ID string }

// readSealed reads the next webhooks with a secret that is sealed under another key.
func readSealed(ctx context.Context, pool pg.DB, f Fingerprint, after webhook) ([]webhook, error) {
	list, err := pg.Collect(ctx, pool, pgx.RowToStructByPos[webhook], `
		SELECT workspace_id, webhook_id FROM webhook
		 WHERE (workspace_id, webhook_id) > ($1, $2) AND (substring(secret FOR 8) <> $3 OR substring(old_secret FOR 8) <> $3
		        OR EXISTS (SELECT FROM unnest(older_secrets) AS o (secret) WHERE substring(o.secret FOR 8) <> $3))
		 ORDER BY workspace_id, webhook_id LIMIT $4`, after.WorkspaceID, after.ID, f[:], resealBatch)
	if err != nil {
		return nil, fmt.Errorf("read which secrets to seal again: %w", err)
	}
	return list, nil
}

// reseal seals the secrets under the first key of the keyring. It returns errReplaced if that key
// no longer seals. It reads and writes the secrets under two locks:
//
//   - The lock on the state prevents a rotation in between, after which nobody may seal under this
//     key.
//   - The lock on the row prevents a change of the row in between. A new secret keeps the one
//     before it as the old secret, under whichever key sealed that.
func (w webhook) reseal(ctx context.Context, pool pg.DB, k *Keyring) (changed bool, err error) {
	err = pg.InLimitedTx(ctx, pool, resealLockTimeout, func(tx pgx.Tx) error {
		if err := lockState(ctx, tx, toMake); err != nil {
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
			SELECT secret, old_secret, older_secrets FROM webhook WHERE workspace_id = $1 AND webhook_id = $2 FOR NO KEY UPDATE`, w.WorkspaceID, w.ID).Scan(&before, &oldBefore, &olderBefore)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // it was deleted
		}
		if err != nil {
			return fmt.Errorf("read the secret of %s: %w", w.ID, err)
		}
		secret, old := w.again(k, before), w.again(k, oldBefore)
		older := make([][]byte, len(olderBefore))
		for i, box := range olderBefore {
			older[i] = w.again(k, box)
		}
		if slices.Equal(secret, before) && slices.Equal(old, oldBefore) && slices.EqualFunc(older, olderBefore, slices.Equal) {
			return nil
		}
		_, err = tx.Exec(ctx, `UPDATE webhook SET secret = $3, old_secret = $4, older_secrets = $5 WHERE workspace_id = $1 AND webhook_id = $2`, w.WorkspaceID, w.ID, secret, old, older)
		if err != nil {
			return fmt.Errorf("write it: %w", err)
		}
		changed = true
		return nil
	})
	if err != nil && !errors.Is(err, errReplaced) {
		err = fmt.Errorf("seal the secret of %s again: %w", w.ID, err)
	}
	return changed && err == nil, err
}

// again seals a secret under the first key. It returns a secret that cannot be opened as it is.
func (w webhook) again(k *Keyring, box []byte) []byte {
	if box == nil || k.Current(box) {
		return box
	}
	secret, err := k.Open(w.WorkspaceID, w.ID, box)
	if err != nil {
		return box
	}
	return k.Seal(w.WorkspaceID, w.ID, secret)
}
