package access

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// StoreConfig is what a Store needs.
type StoreConfig struct {
	Pool   pg.DB            // required
	Format Format           // required, from NewFormat
	Clock  func() time.Time // nil: time.Now
}

// Store creates and changes keys. Any number of goroutines and processes may call its methods. Each
// change runs in one transaction, which also adds a line to the audit trail and is committed when
// the method returns without an error. Errors that a method's comment does not name come from the
// database.
type Store struct {
	pool   pg.DB
	format Format
	clock  func() time.Time
}

// NewStore makes a Store. The error says what cfg lacks.
func NewStore(cfg StoreConfig) (*Store, error) {
	if cfg.Pool == nil || cfg.Format.brand == "" {
		return nil, errors.New("access store: Pool and Format must be set")
	}
	s := &Store{pool: cfg.Pool, format: cfg.Format, clock: cfg.Clock}
	if s.clock == nil {
		s.clock = time.Now
	}
	return s, nil
}

// now returns the time for a transaction, in UTC and to the microsecond that the database stores.
func (s *Store) now() time.Time {
	return s.clock().UTC().Truncate(time.Microsecond)
}

// Create makes a key and returns its secret, which cannot be read again. The key works on every
// instance as soon as Create returns. Errors: one or more joined *InvalidError;
// *domain.UnknownWorkspaceError; *TooManyKeysError.
func (s *Store) Create(ctx context.Context, n NewKey) (*Record, Secret, error) {
	now := s.now()
	if n.RateLimit == 0 {
		n.RateLimit = DefaultRateLimit
	}
	if err := n.validate(now); err != nil {
		return nil, Secret{}, err
	}
	secret, err := s.format.Generate(rand.Reader)
	if err != nil {
		return nil, Secret{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, Secret{}, fmt.Errorf("make a key id: %w", err)
	}
	record := &Record{Key: Key{
		ID: keyIDPrefix + id.String(), WorkspaceID: n.WorkspaceID, Name: n.Name, Prefix: secret.Prefix(),
		Permissions: n.Permissions, RateLimit: n.RateLimit, CreatedAt: now,
	}}
	if !n.ExpiresAt.IsZero() {
		record.ExpiresAt = n.ExpiresAt.UTC().Truncate(time.Microsecond)
	}
	err = s.transact(ctx, func(tx pgx.Tx) error {
		if err := eventlog.MayChange(ctx, tx, n.WorkspaceID, false); err != nil {
			return err
		}
		if err := insertKey(ctx, tx, record, secret); err != nil {
			return err
		}
		detail := "with " + record.Permissions.String()
		if !record.ExpiresAt.IsZero() {
			detail += ", until " + record.ExpiresAt.Format(time.RFC3339)
		}
		return addToAudit(ctx, tx, now, audit.KeyCreate, record, detail)
	})
	if err != nil {
		return nil, Secret{}, err
	}
	return record, secret, nil
}

// addToAudit adds a change of a key to the audit trail.
func addToAudit(ctx context.Context, tx pgx.Tx, at time.Time, action audit.Action, r *Record, detail string) error {
	return audit.Add(ctx, tx, at, audit.Change{WorkspaceID: r.WorkspaceID, Action: action, ObjectID: r.ID, ObjectName: r.Name, Detail: detail})
}

// insertKey inserts a key with its secret and fills in the workspace's name. It locks the workspace
// first, so that two concurrent transactions cannot both make its hundredth key.
func insertKey(ctx context.Context, tx pgx.Tx, r *Record, secret Secret) error {
	const lock = `SELECT name FROM workspace WHERE workspace_id = $1 FOR NO KEY UPDATE`
	err := tx.QueryRow(ctx, lock, r.WorkspaceID).Scan(&r.WorkspaceName)
	if errors.Is(err, pgx.ErrNoRows) {
		return &domain.UnknownWorkspaceError{WorkspaceID: r.WorkspaceID}
	}
	if err != nil {
		return fmt.Errorf("lock the workspace %s: %w", r.WorkspaceID, err)
	}
	const count = `SELECT count(*) FROM api_key
		WHERE workspace_id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)`
	var live int
	if err := tx.QueryRow(ctx, count, r.WorkspaceID, r.CreatedAt).Scan(&live); err != nil {
		return fmt.Errorf("count the keys of the workspace %s: %w", r.WorkspaceID, err)
	}
	if live >= MaxLiveKeys {
		return &TooManyKeysError{WorkspaceID: r.WorkspaceID}
	}
	const insert = `INSERT INTO api_key
		(workspace_id, key_id, name, permissions, rate_limit_per_minute, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`
	_, err = tx.Exec(ctx, insert, r.WorkspaceID, r.ID, r.Name, r.Permissions.Strings(), r.RateLimit, r.CreatedAt, orNull(r.ExpiresAt))
	if err != nil {
		return fmt.Errorf("insert the key: %w", err)
	}
	return insertSecret(ctx, tx, &r.Key, secret, r.CreatedAt)
}

func insertSecret(ctx context.Context, tx pgx.Tx, k *Key, secret Secret, now time.Time) error {
	const insert = `INSERT INTO api_key_secret (workspace_id, key_id, hash, prefix, created_at) VALUES ($1, $2, $3, $4, $5)`
	hash := secret.Hash()
	if _, err := tx.Exec(ctx, insert, k.WorkspaceID, k.ID, hash[:], secret.Prefix(), now); err != nil {
		return fmt.Errorf("insert the secret of the key %s: %w", k.ID, err)
	}
	return nil
}

// Rotate gives a key a new secret and returns it; the secret cannot be read again. The key keeps
// its id, permissions, name, counter and expiry. Its earlier secrets end after overlap (0 to
// MaxOverlap), or sooner if an earlier rotation said so. An overlap of 0 ends them all within a
// second on every instance, even if the instances' clocks differ. Errors: *InvalidError,
// *UnknownKeyError, *NotLiveError.
func (s *Store) Rotate(ctx context.Context, workspaceID, keyID string, overlap time.Duration) (*Record, Secret, error) {
	if overlap < 0 || overlap > MaxOverlap {
		return nil, Secret{}, &InvalidError{Field: "overlap", Problem: "must be 0 to 24 hours"}
	}
	secret, err := s.format.Generate(rand.Reader)
	if err != nil {
		return nil, Secret{}, err
	}
	now := s.now()
	record, err := s.change(ctx, workspaceID, keyID, now, func(tx pgx.Tx, r *Record) error {
		const end = `UPDATE api_key_secret SET ends_at = least(ends_at, $3), ended = ended OR $4
			WHERE workspace_id = $1 AND key_id = $2`
		if _, err := tx.Exec(ctx, end, workspaceID, keyID, now.Add(overlap), overlap == 0); err != nil {
			return fmt.Errorf("end the secrets of the key %s: %w", keyID, err)
		}
		if err := insertSecret(ctx, tx, &r.Key, secret, now); err != nil {
			return err
		}
		detail := "the old one ended at once"
		if overlap > 0 {
			detail = "the old one ends " + now.Add(overlap).Format(time.RFC3339)
		}
		return addToAudit(ctx, tx, now, audit.KeyRotate, r, detail)
	})
	if err != nil {
		return nil, Secret{}, err
	}
	return record, secret, nil
}

// SetRateLimit changes a key's limit, in requests per clock minute, 1 to MaxRateLimit
// (docs/contract/service.md, "Limits", rule 5). Errors: *InvalidError, *UnknownKeyError,
// *NotLiveError.
func (s *Store) SetRateLimit(ctx context.Context, workspaceID, keyID string, perMinute int) (*Record, error) {
	if err := validateRateLimit(perMinute); err != nil {
		return nil, err
	}
	now := s.now()
	return s.change(ctx, workspaceID, keyID, now, func(tx pgx.Tx, before *Record) error {
		const set = `UPDATE api_key SET rate_limit_per_minute = $3 WHERE workspace_id = $1 AND key_id = $2`
		if _, err := tx.Exec(ctx, set, workspaceID, keyID, perMinute); err != nil {
			return fmt.Errorf("set the rate limit of the key %s: %w", keyID, err)
		}
		return addToAudit(ctx, tx, now, audit.KeySetLimit, before, fmt.Sprintf("from %d to %s a minute", before.RateLimit, texts.Count(perMinute, "request", "requests")))
	})
}

// Rename changes a key's name, 1 to 100 characters. Errors: *InvalidError,
// *UnknownKeyError, *NotLiveError.
func (s *Store) Rename(ctx context.Context, workspaceID, keyID, name string) (*Record, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	now := s.now()
	return s.change(ctx, workspaceID, keyID, now, func(tx pgx.Tx, before *Record) error {
		const set = `UPDATE api_key SET name = $3 WHERE workspace_id = $1 AND key_id = $2`
		if _, err := tx.Exec(ctx, set, workspaceID, keyID, name); err != nil {
			return fmt.Errorf("rename the key %s: %w", keyID, err)
		}
		detail := fmt.Sprintf("name before: %q", before.Name)
		before.Name = name
		return addToAudit(ctx, tx, now, audit.KeyRename, before, detail)
	})
}

// Revoke ends a key for good, within a second on every instance. Revoking a key again is not an
// error; its first revocation time stays. Errors: *UnknownKeyError.
func (s *Store) Revoke(ctx context.Context, workspaceID, keyID string) (*Record, error) {
	now := s.now()
	record, err := s.change(ctx, workspaceID, keyID, time.Time{}, func(tx pgx.Tx, before *Record) error {
		const revoke = `UPDATE api_key SET revoked_at = $3 WHERE workspace_id = $1 AND key_id = $2`
		if _, err := tx.Exec(ctx, revoke, workspaceID, keyID, now); err != nil {
			return fmt.Errorf("revoke the key %s: %w", keyID, err)
		}
		return addToAudit(ctx, tx, now, audit.KeyRevoke, before, "")
	})
	var notLive *NotLiveError
	if errors.As(err, &notLive) {
		return s.Get(ctx, workspaceID, keyID)
	}
	return record, err
}

// change locks a key, checks that it is live at now, runs do, makes every instance read the key
// again, and returns the key as it is afterwards. If now is zero, only a revoked key counts as not
// live: expiry is not checked. Errors: *UnknownKeyError, *NotLiveError, and those of do.
func (s *Store) change(ctx context.Context, workspaceID, keyID string, now time.Time, do func(pgx.Tx, *Record) error) (*Record, error) {
	var after *Record
	err := s.transact(ctx, func(tx pgx.Tx) error {
		if err := eventlog.MayChange(ctx, tx, workspaceID, false); err != nil {
			return err
		}
		const lock = `SELECT 1 FROM api_key WHERE workspace_id = $1 AND key_id = $2 FOR NO KEY UPDATE`
		if _, err := tx.Exec(ctx, lock, workspaceID, keyID); err != nil {
			return fmt.Errorf("lock the key %s: %w", keyID, err)
		}
		before, err := getRecord(ctx, tx, workspaceID, keyID)
		if err != nil {
			return err
		}
		if state := before.State(now); state != Live {
			return &NotLiveError{KeyID: keyID, State: state}
		}
		if err := do(tx, before); err != nil {
			return err
		}
		if after, err = getRecord(ctx, tx, workspaceID, keyID); err != nil {
			return err
		}
		// This comes last because all other transactions that change keys wait from here on.
		revision, err := nextRevision(ctx, tx)
		if err != nil {
			return err
		}
		const stamp = `UPDATE api_key SET revision = $3 WHERE workspace_id = $1 AND key_id = $2`
		if _, err := tx.Exec(ctx, stamp, workspaceID, keyID, revision); err != nil {
			return fmt.Errorf("stamp the key %s: %w", keyID, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return after, nil
}

// transact runs do in a read-committed transaction. Counting under a lock needs this: each
// statement sees what other transactions committed before it.
func (s *Store) transact(ctx context.Context, do func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, do)
}

// orNull converts t for the database: the zero time becomes null.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// orZero converts t from the database to UTC: null becomes the zero time.
func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// List returns all keys of a workspace, including revoked and expired ones, in order of creation.
// Errors: *domain.UnknownWorkspaceError.
func (s *Store) List(ctx context.Context, workspaceID string) ([]*Record, error) {
	records, err := queryRecords(ctx, s.pool, `k.workspace_id = $1`, workspaceID)
	if err != nil || len(records) > 0 {
		return records, err
	}
	const exists = `SELECT EXISTS (SELECT FROM workspace WHERE workspace_id = $1)`
	var known bool
	if err := s.pool.QueryRow(ctx, exists, workspaceID).Scan(&known); err != nil {
		return nil, fmt.Errorf("look for the workspace %s: %w", workspaceID, err)
	}
	if !known {
		return nil, &domain.UnknownWorkspaceError{WorkspaceID: workspaceID}
	}
	return records, nil
}

// Get returns one key. Errors: *UnknownKeyError.
func (s *Store) Get(ctx context.Context, workspaceID, keyID string) (*Record, error) {
	return getRecord(ctx, s.pool, workspaceID, keyID)
}

// Find returns the workspace and the id of a key, for operators who know only its id or its prefix,
// which names one key. Do not use it for what a workspace's users send, because it finds keys of every
// workspace. Errors: *UnknownKeyError.
func (s *Store) Find(ctx context.Context, idOrPrefix string) (workspaceID, keyID string, err error) {
	const find = `SELECT DISTINCT k.workspace_id, k.key_id FROM api_key k JOIN api_key_secret s USING (workspace_id, key_id)
		 WHERE k.key_id = $1 OR s.prefix = $1`
	rows, err := s.pool.Query(ctx, find, idOrPrefix)
	if err != nil {
		return "", "", fmt.Errorf("look for a key: %w", err)
	}
	found := 0
	if _, err := pgx.ForEachRow(rows, []any{&workspaceID, &keyID}, func() error { found++; return nil }); err != nil {
		return "", "", fmt.Errorf("look for a key: %w", err)
	}
	if found != 1 {
		return "", "", &UnknownKeyError{KeyID: idOrPrefix}
	}
	return workspaceID, keyID, nil
}

func getRecord(ctx context.Context, db pg.Querier, workspaceID, keyID string) (*Record, error) {
	records, err := queryRecords(ctx, db, `k.workspace_id = $1 AND k.key_id = $2`, workspaceID, keyID)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, &UnknownKeyError{KeyID: keyID}
	}
	return records[0], nil
}

// queryRecords reads keys with their secrets. The query returns one row per secret, grouped by key,
// newest secret first.
func queryRecords(ctx context.Context, db pg.Querier, where string, args ...any) ([]*Record, error) {
	sql := `SELECT k.key_id, k.workspace_id, w.name, k.name, s.prefix, k.permissions, k.rate_limit_per_minute,
			k.created_at, k.expires_at, k.revoked_at, s.created_at, s.ends_at, u.last_used_at
		FROM api_key k
		JOIN workspace w ON w.workspace_id = k.workspace_id
		JOIN api_key_secret s ON s.workspace_id = k.workspace_id AND s.key_id = k.key_id
		LEFT JOIN api_key_use u ON u.workspace_id = k.workspace_id AND u.key_id = k.key_id
		WHERE ` + where + `
		ORDER BY k.created_at, k.key_id, s.ends_at DESC NULLS FIRST, s.created_at DESC`
	records := []*Record{}
	var (
		r                            Record
		prefix                       string
		permissions                  []string
		expires, revoked, secretEnds *time.Time
		used                         *time.Time
		secretMade                   time.Time
	)
	err := pg.ForEach(ctx, db, sql, args, []any{
		&r.ID, &r.WorkspaceID, &r.WorkspaceName, &r.Name, &prefix, &permissions, &r.RateLimit,
		&r.CreatedAt, &expires, &revoked, &secretMade, &secretEnds, &used,
	}, func() error {
		if n := len(records); n > 0 && records[n-1].ID == r.ID {
			records[n-1].Replaced = append(records[n-1].Replaced,
				ReplacedSecret{Prefix: prefix, CreatedAt: secretMade.UTC(), EndsAt: orZero(secretEnds)})
			return nil
		}
		record := r
		record.Prefix = prefix
		record.Permissions = storedPermissions(permissions)
		record.CreatedAt = r.CreatedAt.UTC()
		record.ExpiresAt = orZero(expires)
		record.RevokedAt = orZero(revoked)
		record.LastUsedAt = orZero(used)
		records = append(records, &record)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	return records, nil
}
