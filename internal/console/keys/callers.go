package keys

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// callerRequests bounds the requests that are read to find who uses a key.
	callerRequests = 500
	// maxCallers bounds those that are shown.
	maxCallers = 5
)

// caller is a program that uses a key, as far as its requests tell.
type caller struct {
	UserAgent string // empty: it names none
	Address   string // empty: not kept
	Requests  int64
	Last      time.Time
}

// callersOf returns who sent the last requests of a key on the day (UTC) of its last use,
// the latest first.
func callersOf(ctx context.Context, pool *pgxpool.Pool, workspaceID, keyID string) ([]caller, error) {
	rows, err := pool.Query(ctx, `
		SELECT coalesce(r.user_agent, ''), coalesce(host(r.address), ''), count(*), max(r.at)
		  FROM api_key_use u
		 CROSS JOIN LATERAL (
		       SELECT l.user_agent, l.address, l.at FROM request_log l
		        WHERE `+onTheDay+` AND l.at >= u.last_used_at - interval '1 day'
		        ORDER BY l.at DESC LIMIT $3) r
		 WHERE u.workspace_id = $1 AND u.key_id = $2
		 GROUP BY 1, 2 ORDER BY 4 DESC LIMIT $4`, workspaceID, keyID, callerRequests, maxCallers)
	if err != nil {
		return nil, fmt.Errorf("cannot look for the callers of a key: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[caller])
	if err != nil {
		return nil, fmt.Errorf("cannot look for the callers of a key: %w", err)
	}
	return list, nil
}
