// This file knows under which key the secrets of a database's webhooks are
// sealed. The key itself is outside of the database (LEDGERFEED_SECRET_KEY, or a file
// in the data directory); the database has its fingerprint, so that a process with
// another key is refused in words instead of sealing what others cannot open, or of
// failing to open what others sealed.

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
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/plural"
)

// State is what a database says about its keys.
type State struct {
	Sealing *Fingerprint        // what new secrets are sealed under; nil: none was ever used
	Secrets map[Fingerprint]int // secrets that are in use, by the key that they are sealed under
	Lost    []Fingerprint       // given up: secrets under them are not opened any more
}

// DB is a pool or a transaction.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// ReadState reads the state. Old secrets count until their overlap is over.
func ReadState(ctx context.Context, db DB, now time.Time) (*State, error) {
	rows, err := db.Query(ctx, `
		SELECT fingerprint, state, 0 FROM secret_key WHERE workspace_id = '*' AND state <> 'former'
		 UNION ALL
		SELECT s.key, 'stored', count(*) FROM (
		       SELECT substring(secret FOR 8) AS key FROM webhook
		        UNION ALL
		       SELECT substring(old_secret FOR 8) FROM webhook WHERE old_secret IS NOT NULL AND old_secret_until > $1
		        UNION ALL
		       SELECT substring(o.secret FOR 8) FROM webhook, unnest(older_secrets, older_secrets_until) AS o (secret, until) WHERE o.until > $1) s
		 GROUP BY s.key`, now)
	if err != nil {
		return nil, fmt.Errorf("read the fingerprints of the secret keys: %w", err)
	}
	s := &State{Secrets: map[Fingerprint]int{}}
	var (
		key   []byte
		state string
		n     int
	)
	_, err = pgx.ForEachRow(rows, []any{&key, &state, &n}, func() error {
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

// Unused tells whether nothing is sealed that could be opened, so that another key
// may take the place of the one before.
func (s *State) Unused() bool {
	for f, n := range s.Secrets {
		if n > 0 && !slices.Contains(s.Lost, f) {
			return false
		}
	}
	return true
}

// Missing returns the keys that a process must have and a keyring lacks: the one that
// seals, and those under which there are secrets, unless they were given up.
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

// Check returns a *MissingError for a keyring that lacks a key; nil stands for one
// without keys.
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
	Reason  string // why there is no key at all; empty: those that there are do not fit
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

// Sealing returns the keyring with the database's own key as the one that seals, in
// a transaction that seals something. Until it ends, the key cannot be rotated. The
// first keyring that is used gives the database its key. The error is a
// *MissingError when the keyring lacks the key.
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
	if s, err = lockAndRead(ctx, tx, "ROW SHARE", now); err != nil {
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

// Hold checks that a keyring has the key that seals, in a transaction that tells others of its keys.
// Until it ends, the key cannot be rotated: a rotation either comes before, and is seen here, or
// finds what the transaction has told. The error is a *MissingError when the keyring lacks the key.
func Hold(ctx context.Context, tx pgx.Tx, k *Keyring, now time.Time) error {
	s, err := lockAndRead(ctx, tx, "ROW SHARE", now)
	if err != nil || s.Sealing == nil {
		return err
	}
	if _, ok := k.Under(*s.Sealing); !ok {
		return &MissingError{Missing: []Fingerprint{*s.Sealing}, Secrets: s.Secrets[*s.Sealing]}
	}
	return nil
}

// Register makes the first key of a keyring the database's own unless it has one, and
// checks the keyring: the error is a *MissingError when it lacks a key. A key that
// nothing is sealed under is replaced, unless a process that delivers has it. Of
// processes that call it at the same time with different keys, those that come too
// late are refused when they seal.
func Register(ctx context.Context, tx pgx.Tx, k *Keyring, now time.Time) error {
	s, err := ReadState(ctx, tx, now)
	if err != nil {
		return err
	}
	if err := s.Check(k); err == nil && s.Sealing != nil || err != nil && !s.Unused() {
		return err
	}
	if s, err = lockAndRead(ctx, tx, "EXCLUSIVE", now); err != nil { // others may have been faster
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

// lockAndRead reads the state with a lock until the end of the transaction. Callers
// that make a secret take ROW SHARE, which many hold at the same time; callers that change
// the state take EXCLUSIVE, which waits for them and keeps others out. A transaction takes
// EXCLUSIVE first if it needs both.
func lockAndRead(ctx context.Context, tx pgx.Tx, mode string, now time.Time) (*State, error) {
	if err := lockState(ctx, tx, mode); err != nil {
		return nil, err
	}
	return ReadState(ctx, tx, now)
}

func lockState(ctx context.Context, tx pgx.Tx, mode string) error {
	if _, err := tx.Exec(ctx, `LOCK TABLE secret_key IN `+mode+` MODE`); err != nil {
		return fmt.Errorf("lock the fingerprints of the secret keys: %w", err)
	}
	return nil
}

// replace makes another key the one that seals, with a line in the audit trail. The
// state is locked.
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

// countProcesses counts the processes that deliver of which a condition about a key
// is true.
func countProcesses(ctx context.Context, tx pgx.Tx, condition string, f Fingerprint) (n int, err error) {
	err = tx.QueryRow(ctx, `
		SELECT count(*) FROM webhook_instance WHERE workspace_id = '*' AND lease_until > clock_timestamp() AND (`+condition+`)`, f[:]).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("look for processes that deliver, and their secret keys: %w", err)
	}
	return n, nil
}

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
