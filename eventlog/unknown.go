package eventlog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Unknown returns the workspaces that do not exist, in the order given.
func (l *Log) Unknown(ctx context.Context, workspaceIDs ...string) (unknown []string, err error) {
	if len(workspaceIDs) == 0 {
		return nil, nil
	}
	unknown, err = pg.Collect(ctx, l.pool, pgx.RowTo[string], `SELECT k.id FROM unnest($1::text[]) WITH ORDINALITY AS k (id, n)
		 WHERE (SELECT w.workspace_id FROM workspace w WHERE w.workspace_id = k.id) IS NULL ORDER BY k.n`, workspaceIDs)
	if pg.Forbidden(err) {
		// A producer's account may only append. This log_append appends nothing, because it expects
		// a position that no log has. Only a workspace that does not exist gives outcomes and no
		// head.
		unknown, err = pg.Collect(ctx, l.pool, pgx.RowTo[string], `SELECT k.id FROM unnest($1::text[]) WITH ORDINALITY AS k (id, n)
			 CROSS JOIN LATERAL log_append(k.id, $2, -1, true, '{}', '{}', '{}', '{}', '{}', '{}', '{}', 0) AS a
			 WHERE a.head IS NULL AND a.outcomes IS NOT NULL ORDER BY k.n`, workspaceIDs, l.clock())
	}
	if err != nil {
		return nil, fmt.Errorf("look for workspaces: %w", AppendError("", err))
	}
	return unknown, nil
}
