package access

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// querier is a pool, a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// List returns all keys of a workspace, revoked and expired ones too, in the order in
// which they were made. Errors: *domain.UnknownWorkspaceError.
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

// WorkspaceOf returns the workspace that a key belongs to, for operators who name a key
// by its id alone. Ids that the users of a workspace give must not be looked up with it,
// because it finds keys of every workspace. Errors: *UnknownKeyError.
func (s *Store) WorkspaceOf(ctx context.Context, keyID string) (string, error) {
	const find = `SELECT workspace_id FROM api_key WHERE key_id = $1`
	var workspaceID string
	err := s.pool.QueryRow(ctx, find, keyID).Scan(&workspaceID)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", &UnknownKeyError{KeyID: keyID}
	}
	if err != nil {
		return "", fmt.Errorf("look for the key %s: %w", keyID, err)
	}
	return workspaceID, nil
}

func getRecord(ctx context.Context, db querier, workspaceID, keyID string) (*Record, error) {
	records, err := queryRecords(ctx, db, `k.workspace_id = $1 AND k.key_id = $2`, workspaceID, keyID)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, &UnknownKeyError{KeyID: keyID}
	}
	return records[0], nil
}

// queryRecords reads keys with their secrets, a row for each secret, those of a
// key together and the newest first.
func queryRecords(ctx context.Context, db querier, where string, args ...any) ([]*Record, error) {
	sql := `SELECT k.key_id, k.workspace_id, w.name, k.name, s.prefix, k.permissions, k.rate_limit_per_minute,
			k.created_at, k.expires_at, k.revoked_at, s.created_at, s.ends_at, u.last_used_at
		FROM api_key k
		JOIN workspace w ON w.workspace_id = k.workspace_id
		JOIN api_key_secret s ON s.workspace_id = k.workspace_id AND s.key_id = k.key_id
		LEFT JOIN api_key_use u ON u.workspace_id = k.workspace_id AND u.key_id = k.key_id
		WHERE ` + where + `
		ORDER BY k.created_at, k.key_id, s.ends_at DESC NULLS FIRST, s.created_at DESC`
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	records := []*Record{}
	var (
		r                            Record
		prefix                       string
		permissions                  []string
		expires, revoked, secretEnds *time.Time
		used                         *time.Time
		secretMade                   time.Time
	)
	_, err = pgx.ForEachRow(rows, []any{
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
