package readapi

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// SharedCursorKey returns the key for Config.CursorKey that all instances on a
// database share. The first instance makes it.
func SharedCursorKey(ctx context.Context, pool *pgxpool.Pool) ([]byte, error) {
	fresh := make([]byte, cursorKeySize)
	if _, err := rand.Read(fresh); err != nil {
		return nil, fmt.Errorf("make the key of cursors: %w", err)
	}
	_, err := pool.Exec(ctx, `
		INSERT INTO service_key (workspace_id, name, value) VALUES ('*', 'cursor', $1) ON CONFLICT DO NOTHING`, fresh)
	if err != nil {
		return nil, fmt.Errorf("store the key of cursors: %w", err)
	}
	var key []byte
	err = pool.QueryRow(ctx, `SELECT value FROM service_key WHERE workspace_id = '*' AND name = 'cursor'`).Scan(&key)
	if err != nil {
		return nil, fmt.Errorf("read the key of cursors: %w", err)
	}
	return key, nil
}
