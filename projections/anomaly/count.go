package anomaly

import (
	"context"
	"fmt"
)

// MostWaiting is the most anomalies that Waiting counts.
const MostWaiting = 10_000

// Waiting counts the anomalies that nobody has acknowledged, up to MostWaiting: for more, the exact
// number does not matter. Its time depends on the number of acknowledged anomalies, which it skips
// one by one: about half a second for a million.
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

// Span is a range of consecutive entries in a workspace.
type Span struct {
	WorkspaceID string
	First, Last int64 // positions, both included
}

// CountEntries counts the entries in the spans that are anomalies. An entry with several reasons
// counts once. The spans must not overlap.
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
