package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// hash is the SHA-256 of a key's full text.
type hash = [sha256.Size]byte

// entry is what the database holds about one secret. It never changes.
type entry struct {
	key     *Key
	revoked bool
	ended   bool      // replaced by a rotation without an overlap
	endsAt  time.Time // refused from then on because of a rotation; zero: never
	readAt  time.Time // by the directory's clock, before the database was asked
}

// admit gives the key if it may be used at now. The error is a *RefusedError.
func (e *entry) admit(now time.Time) (*Key, error) {
	var reason Reason
	switch {
	case e.revoked:
		reason = ReasonRevoked
	case !e.key.ExpiresAt.IsZero() && !now.Before(e.key.ExpiresAt):
		reason = ReasonExpired
	case e.ended || !e.endsAt.IsZero() && !now.Before(e.endsAt):
		reason = ReasonRotated
	default:
		return e.key, nil
	}
	return nil, &RefusedError{Reason: reason, Prefix: e.key.Prefix, KeyID: e.key.ID, WorkspaceID: e.key.WorkspaceID}
}

// readEntry asks the database for a secret; nil without an error means that there
// is none.
func readEntry(ctx context.Context, pool *pgxpool.Pool, h hash) (*entry, error) {
	const find = `SELECT k.key_id, k.workspace_id, w.name, k.name, s.prefix, k.permissions, k.rate_limit_per_minute,
			k.created_at, k.expires_at, k.revoked_at IS NOT NULL, s.ended, s.ends_at
		FROM api_key_secret s
		JOIN api_key k ON k.workspace_id = s.workspace_id AND k.key_id = s.key_id
		JOIN workspace w ON w.workspace_id = s.workspace_id
		WHERE s.hash = $1`
	k, e := &Key{}, &entry{}
	var permissions []string
	var expiresAt, endsAt *time.Time
	err := pool.QueryRow(ctx, find, h[:]).Scan(&k.ID, &k.WorkspaceID, &k.WorkspaceName, &k.Name, &k.Prefix, &permissions,
		&k.RateLimit, &k.CreatedAt, &expiresAt, &e.revoked, &e.ended, &endsAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for a key: %w", err)
	}
	k.Permissions = storedPermissions(permissions)
	k.CreatedAt = k.CreatedAt.UTC()
	k.ExpiresAt = orZero(expiresAt)
	e.key, e.endsAt = k, orZero(endsAt)
	return e, nil
}
