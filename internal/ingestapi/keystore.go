package ingestapi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// KeyStoreConfig is what a KeyStore needs.
type KeyStoreConfig struct {
	Pool   pg.DB
	Format access.Format // from KeyFormat
	Clock  func() time.Time
}

// KeyStore makes and changes keys. Each change is one transaction, which also adds a line to the
// audit trail of each of the key's workspaces.
type KeyStore struct{ cfg KeyStoreConfig }

// NewKeyStore makes a KeyStore.
func NewKeyStore(cfg KeyStoreConfig) *KeyStore { return &KeyStore{cfg: cfg} }

func (s *KeyStore) now() time.Time { return s.cfg.Clock().UTC().Truncate(time.Microsecond) }

// KeyOptions is what a new key is made from.
type KeyOptions struct {
	Workspaces []string // one or more, which exist
	Name       string   // 1 to 100 characters
	Types      []string // entry types; empty: all
}

// validate reports all mistakes at once, each as an *InvalidKeyError.
func (n *KeyOptions) validate() error {
	var errs []error
	if len(n.Workspaces) == 0 || len(n.Workspaces) > MaxKeyWorkspaces || slices.Contains(n.Workspaces, "") {
		errs = append(errs, &InvalidKeyError{"workspace", fmt.Sprintf("want 1 to %d ids of workspaces", MaxKeyWorkspaces)})
	}
	if invalid, is := errors.AsType[*access.InvalidError](access.CheckName(n.Name)); is {
		errs = append(errs, &InvalidKeyError{invalid.Field, invalid.Problem})
	}
	var known []string
	for _, t := range domain.EntryTypes() {
		known = append(known, t.Type)
	}
	for _, t := range n.Types {
		if !slices.Contains(known, t) {
			errs = append(errs, &InvalidKeyError{"types", fmt.Sprintf("there is no entry type %q: ledgerfeed types lists all%s", t, texts.DidYouMean(t, known))})
		}
	}
	return errors.Join(errs...)
}

// Create makes a key and returns its secret, which cannot be read again. Errors: one or more joined
// *InvalidKeyError; *domain.UnknownWorkspaceError; *eventlog.MovedError.
func (s *KeyStore) Create(ctx context.Context, n KeyOptions) (*KeyRecord, access.Secret, error) {
	if err := n.validate(); err != nil {
		return nil, access.Secret{}, err
	}
	secret, err := s.cfg.Format.Generate(rand.Reader)
	if err != nil {
		return nil, access.Secret{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, access.Secret{}, fmt.Errorf("make an id: %w", err)
	}
	r := &KeyRecord{CreatedAt: s.now(), Key: Key{ID: idPrefix + id.String(), Name: n.Name, Prefix: secret.Prefix(), Workspaces: sorted(n.Workspaces)}}
	if len(n.Types) > 0 {
		r.Types = sorted(n.Types)
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		for _, w := range r.Workspaces {
			if err := insertKey(ctx, tx, r, w); err != nil {
				return err
			}
		}
		if err := insertSecret(ctx, tx, r, secret, r.CreatedAt); err != nil {
			return err
		}
		return s.note(ctx, tx, audit.ProducerCreate, r, r.CreatedAt, "may append "+r.TypesText())
	})
	if err != nil {
		return nil, access.Secret{}, err
	}
	return r, secret, nil
}

func sorted(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }

// TypesText says in words which entry types the key may append.
func (k *Key) TypesText() string {
	if k.Types == nil {
		return "all types"
	}
	return strings.Join(k.Types, ", ")
}

func insertKey(ctx context.Context, tx pgx.Tx, r *KeyRecord, workspaceID string) error {
	if err := eventlog.MayChange(ctx, tx, workspaceID, false); err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, `
		WITH new AS MATERIALIZED (
			SELECT w.workspace_id, $2, $3, $4::text[], $5::timestamptz FROM workspace w WHERE w.workspace_id = $1)
		INSERT INTO producer (workspace_id, producer_id, name, types, created_at)
		SELECT * FROM new`, workspaceID, r.ID, r.Name, r.Types, r.CreatedAt)
	if err != nil {
		return fmt.Errorf("insert the producer: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return &domain.UnknownWorkspaceError{WorkspaceID: workspaceID}
	}
	return nil
}

func insertSecret(ctx context.Context, tx pgx.Tx, r *KeyRecord, secret access.Secret, now time.Time) error {
	hash := secret.Hash()
	_, err := tx.Exec(ctx, `
		INSERT INTO producer_secret (workspace_id, producer_id, hash, prefix, created_at)
		SELECT w, $2, $3, $4, $5 FROM unnest($1::text[]) AS w`, r.Workspaces, r.ID, hash[:], secret.Prefix(), now)
	if err != nil {
		return fmt.Errorf("insert the secret of %s: %w", r.ID, err)
	}
	return nil
}

func (s *KeyStore) note(ctx context.Context, tx pgx.Tx, action audit.Action, r *KeyRecord, at time.Time, detail string) error {
	for _, w := range r.Workspaces {
		if err := audit.Add(ctx, tx, at, audit.Change{WorkspaceID: w, Action: action, ObjectID: r.ID, ObjectName: r.Name, Detail: detail}); err != nil {
			return err
		}
	}
	return nil
}

// Rotate gives a key a new secret and returns it; the secret cannot be read again. Its earlier
// secrets end after overlap (0 to access.MaxOverlap), or sooner if an earlier rotation said so.
// Errors: *InvalidKeyError, *UnknownKeyError, *RevokedKeyError, *eventlog.MovedError.
func (s *KeyStore) Rotate(ctx context.Context, id string, overlap time.Duration) (*KeyRecord, access.Secret, error) {
	if overlap < 0 || overlap > access.MaxOverlap {
		return nil, access.Secret{}, &InvalidKeyError{"overlap", "must be 0 to 24 hours"}
	}
	secret, err := s.cfg.Format.Generate(rand.Reader)
	if err != nil {
		return nil, access.Secret{}, err
	}
	now := s.now()
	r, err := s.change(ctx, id, func(tx pgx.Tx, r *KeyRecord) error {
		// Deleted at once, not at a time that the clocks of instances could disagree about.
		_, err := tx.Exec(ctx, `DELETE FROM producer_secret WHERE workspace_id = ANY ($1) AND producer_id = $2 AND ($4 OR ends_at <= $3)`, r.Workspaces, id, now, overlap == 0)
		if err == nil {
			_, err = tx.Exec(ctx, `UPDATE producer_secret SET ends_at = least(ends_at, $3) WHERE workspace_id = ANY ($1) AND producer_id = $2`, r.Workspaces, id, now.Add(overlap))
		}
		if err != nil {
			return fmt.Errorf("end the secrets of %s: %w", id, err)
		}
		if err := insertSecret(ctx, tx, r, secret, now); err != nil {
			return err
		}
		r.Prefix = secret.Prefix()
		detail := "the old secret ended at once"
		if overlap > 0 {
			detail = "the old secret ends " + now.Add(overlap).Format(time.RFC3339)
		}
		return s.note(ctx, tx, audit.ProducerRotate, r, now, detail)
	})
	if err != nil {
		return nil, access.Secret{}, err
	}
	return r, secret, nil
}

// Revoke ends a key for good. Revoking it again is no error; its first time stays. Errors:
// *UnknownKeyError, *eventlog.MovedError.
func (s *KeyStore) Revoke(ctx context.Context, id string) (*KeyRecord, error) {
	now := s.now()
	r, err := s.change(ctx, id, func(tx pgx.Tx, r *KeyRecord) error {
		if _, err := tx.Exec(ctx, `UPDATE producer SET revoked_at = $3 WHERE workspace_id = ANY ($1) AND producer_id = $2`, r.Workspaces, id, now); err != nil {
			return fmt.Errorf("revoke the key of %s: %w", id, err)
		}
		r.RevokedAt = now
		return s.note(ctx, tx, audit.ProducerRevoke, r, now, "")
	})
	if _, revoked := errors.AsType[*RevokedKeyError](err); revoked {
		return getKey(ctx, s.cfg.Pool, id)
	}
	return r, err
}

// change locks a live key and changes it.
func (s *KeyStore) change(ctx context.Context, id string, do func(pgx.Tx, *KeyRecord) error) (r *KeyRecord, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		if r, err = getKey(ctx, tx, id); err != nil {
			return err
		}
		for _, w := range r.Workspaces {
			if err := eventlog.MayChange(ctx, tx, w, false); err != nil {
				return err
			}
		}
		const lock = `SELECT 1 FROM producer WHERE workspace_id = ANY ($1) AND producer_id = $2 ORDER BY workspace_id FOR NO KEY UPDATE`
		if _, err := tx.Exec(ctx, lock, r.Workspaces, id); err != nil {
			return fmt.Errorf("lock the key of %s: %w", id, err)
		}
		if r, err = getKey(ctx, tx, id); err != nil {
			return err
		}
		if !r.Live() {
			return &RevokedKeyError{id}
		}
		return do(tx, r)
	})
	return r, err
}

func (s *KeyStore) inTx(ctx context.Context, do func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.cfg.Pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, do)
}

// List returns the keys of a workspace, or of all workspaces if it is empty, including revoked ones,
// in the order of creation. Errors: *domain.UnknownWorkspaceError.
func (s *KeyStore) List(ctx context.Context, workspaceID string) ([]*KeyRecord, error) {
	if workspaceID == "" {
		return queryKeys(ctx, s.cfg.Pool, `true`)
	}
	list, err := queryKeys(ctx, s.cfg.Pool, `p.producer_id IN (SELECT o.producer_id FROM producer o WHERE o.workspace_id = $1)`, workspaceID)
	if err != nil || len(list) > 0 {
		return list, err
	}
	var known bool
	if err := s.cfg.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM workspace WHERE workspace_id = $1)`, workspaceID).Scan(&known); err != nil {
		return nil, fmt.Errorf("look for the workspace %s: %w", workspaceID, err)
	}
	if !known {
		return nil, &domain.UnknownWorkspaceError{WorkspaceID: workspaceID}
	}
	return list, nil
}

func getKey(ctx context.Context, db pg.Querier, id string) (*KeyRecord, error) {
	list, err := queryKeys(ctx, db, `p.producer_id = $1`, id)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, &UnknownKeyError{id}
	}
	return list[0], nil
}

// queryKeys reads keys with the prefixes of their newest secrets.
func queryKeys(ctx context.Context, db pg.Querier, where string, args ...any) ([]*KeyRecord, error) {
	var (
		list    = []*KeyRecord{}
		r       KeyRecord
		revoked *time.Time
	)
	err := pg.ForEach(ctx, db, `
		SELECT p.producer_id, min(p.name), array_agg(p.workspace_id ORDER BY p.workspace_id), (array_agg(to_json(p.types)))[1], min(p.created_at), max(p.revoked_at),
		       coalesce((SELECT s.prefix FROM producer_secret s WHERE s.workspace_id = min(p.workspace_id) AND s.producer_id = p.producer_id
		                  ORDER BY s.ends_at DESC NULLS FIRST, s.created_at DESC LIMIT 1), '')
		  FROM producer p WHERE `+where+` GROUP BY p.producer_id ORDER BY 5, 1`, args, []any{&r.ID, &r.Name, &r.Workspaces, &r.Types, &r.CreatedAt, &revoked, &r.Prefix}, func() error {
		one := r
		one.Workspaces, one.Types = slices.Clone(r.Workspaces), slices.Clone(r.Types)
		one.CreatedAt = r.CreatedAt.UTC()
		if revoked != nil {
			one.RevokedAt = revoked.UTC()
		}
		list = append(list, &one)
		r.Types = nil
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read producers: %w", err)
	}
	return list, nil
}
