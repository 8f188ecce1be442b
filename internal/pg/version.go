package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// OldestServer is the oldest major version of PostgreSQL that the schema is tested with.
const OldestServer = 15

// querier is a pool, a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// ServerVersion returns a server's major version, and the version as it names it.
func ServerVersion(ctx context.Context, q querier) (major int, text string, err error) {
	err = q.QueryRow(ctx, `SELECT current_setting('server_version_num')::integer / 10000, current_setting('server_version')`).Scan(&major, &text)
	if err != nil {
		return 0, "", fmt.Errorf("read the version of PostgreSQL: %w", err)
	}
	return major, text, nil
}
