package anomaly

import (
	"context"
	"fmt"
)

// Span is entries of a workspace that follow on each other in the log.
type Span struct {
	WorkspaceID string
	First, Last int64 // positions
}

// CountEntries counts those of the entries that are anomalies, one with several
// reasons once. The spans do not overlap.
func (s *Store) CountEntries(ctx context.Context, spans []Span) (n int64, err error) {
	workspaces, first, last := make([]string, len(spans)), make([]int64, len(spans)), make([]int64, len(spans))
	for i := range spans {
		workspaces[i], first[i], last[i] = spans[i].WorkspaceID, spans[i].First, spans[i].Last
	}
	err = s.pool.QueryRow(ctx, `
		SELECT count(*)
		  FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS span (workspace_id, first, last)
		 CROSS JOIN LATERAL (
		       SELECT DISTINCT a.position FROM anomaly a
		        WHERE a.workspace_id = span.workspace_id AND a.position BETWEEN span.first AND span.last) AS entry`,
		workspaces, first, last).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the anomalies among entries: %w", err)
	}
	return n, nil
}
