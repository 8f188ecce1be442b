package anomaly

import (
	"context"
	"fmt"
)

// MostWaiting is up to how many anomalies Waiting counts.
const MostWaiting = 10_000

// Waiting counts the anomalies that nobody has acknowledged, up to MostWaiting: more have
// to be looked at all the same. What bounds it otherwise is how many were acknowledged,
// about half a second for a million, because they are passed over one by one.
func (s *Store) Waiting(ctx context.Context) (n int64, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT count(*) FROM (
		  SELECT 1 FROM anomaly a WHERE NOT EXISTS (
		         SELECT 1 FROM anomaly_acknowledged k WHERE k.workspace_id = a.workspace_id AND k.position = a.position AND k.reason = a.reason)
		   LIMIT $1) AS waiting`, MostWaiting).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the anomalies that wait: %w", err)
	}
	return n, nil
}

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
