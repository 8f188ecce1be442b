package access

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
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
	readAt  time.Time // by the directory's clock, before the database was queried
}

// admit returns the key if it may be used at now. The error is a *RefusedError.
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

// readEntries reads secrets from the database; those that do not exist are not in the
// result.
func readEntries(ctx context.Context, pool *pgxpool.Pool, hashes []hash) (map[hash]*entry, error) {
	const find = `SELECT s.hash, k.key_id, k.workspace_id, w.name, k.name, s.prefix, k.permissions, k.rate_limit_per_minute,
			k.created_at, k.expires_at, k.revoked_at IS NOT NULL, s.ended, s.ends_at,
			coalesce(w.move = 'moved', false), coalesce(w.moved_to, ''),
			ARRAY(SELECT c.value FROM cursor_key c WHERE c.workspace_id = w.workspace_id ORDER BY c.since DESC, c.value)
		FROM api_key_secret s
		JOIN api_key k ON k.workspace_id = s.workspace_id AND k.key_id = s.key_id
		JOIN workspace w ON w.workspace_id = s.workspace_id
		WHERE s.hash = ANY ($1)`
	wanted := make([][]byte, len(hashes))
	for i := range hashes {
		wanted[i] = hashes[i][:]
	}
	rows, err := pool.Query(ctx, find, wanted)
	if err != nil {
		return nil, fmt.Errorf("look for keys: %w", err)
	}
	found := make(map[hash]*entry, len(hashes))
	var (
		stored            []byte
		k                 Key
		e                 entry
		move              Move
		permissions       []string
		expiresAt, endsAt *time.Time
	)
	_, err = pgx.ForEachRow(rows, []any{
		&stored, &k.ID, &k.WorkspaceID, &k.WorkspaceName, &k.Name, &k.Prefix, &permissions, &k.RateLimit,
		&k.CreatedAt, &expiresAt, &e.revoked, &e.ended, &endsAt, &move.Away, &move.To, &move.CursorKeys,
	}, func() error {
		key, read := k, e
		if move.Away || len(move.CursorKeys) > 0 {
			key.Move = &Move{Away: move.Away, To: move.To, CursorKeys: slices.Clone(move.CursorKeys)}
		}
		key.Permissions = storedPermissions(permissions)
		key.CreatedAt = k.CreatedAt.UTC()
		key.ExpiresAt = orZero(expiresAt)
		read.key, read.endsAt = &key, orZero(endsAt)
		found[hash(stored)] = &read // 32 bytes by a constraint of the table
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for keys: %w", err)
	}
	return found, nil
}
