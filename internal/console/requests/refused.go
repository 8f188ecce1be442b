package requests

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// refusal is how many requests were refused for a reason.
type refusal struct {
	Reason string
	Count  int64
}

// Label describes the reason.
func (r refusal) Label() string {
	switch r.Reason {
	case "rate_limit":
		return "Over the key's limit (429)"
	case "revoked":
		return "With a revoked key (401)"
	case "expired":
		return "With an expired key (401)"
	case "rotated":
		return "With a secret that was rotated (401)"
	case "slow_down":
		return "Too many refused keys from one address (429)"
	case "key_in_url":
		return "With the key in the address (400)"
	case "method":
		return "With a method other than GET (405)"
	}
	return r.Reason
}

// refusedStatuses are the statuses of refused requests.
func refusedStatuses() []int { return []int{400, 401, 405, 429, 431} }

// statusOf is the status that requests get which are refused for a reason.
func statusOf(reason string) int {
	switch reason {
	case "rate_limit", "slow_down":
		return 429
	case "key_in_url", "not_http":
		return 400
	case "method":
		return 405
	case "headers":
		return 431
	}
	return 401 // a key that is not valid
}

// refusals counts the refused requests since a moment by reason, those of a key or all.
func refusals(ctx context.Context, pool *pgxpool.Pool, workspaceID, keyID string, since time.Time) ([]refusal, error) {
	rows, err := pool.Query(ctx, `
		SELECT reason, sum(refused)::bigint FROM request_refused
		 WHERE workspace_id = $1 AND minute > $2 AND ($3 = '' OR key_id = $3) GROUP BY reason ORDER BY 2 DESC, reason`, workspaceID, since, keyID)
	if err != nil {
		return nil, fmt.Errorf("cannot count refused requests: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[refusal])
	if err != nil {
		return nil, fmt.Errorf("cannot count refused requests: %w", err)
	}
	return list, nil
}
