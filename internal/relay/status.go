package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Status is the progress of one relay, over all workspaces or in one.
type Status struct {
	Name       string    `json:"name"`
	Position   int64     `json:"position"`    // entries sent, or passed over because they are internal
	Visible    int64     `json:"visible"`     // entries that may be sent
	LagEntries int64     `json:"lag_entries"` // of those, entries not yet sent
	LagSeconds float64   `json:"lag_seconds"` // since the oldest of them was appended; 0: there is none
	Failing    int64     `json:"failing"`     // workspaces whose last attempt failed
	Errors     []Failing `json:"errors"`      // the first mostListed of them
}

// Failing is a workspace that cannot be sent.
type Failing struct {
	WorkspaceID string     `json:"workspace_id"`
	Position    int64      `json:"position"` // of the entry that cannot be sent
	Error       string     `json:"error"`
	RetryAt     *time.Time `json:"retry_at"`
}

// mostListed bounds the failing workspaces that are listed of a relay.
const mostListed = 100

// ReadStatus reads the progress of every relay that ever ran on the database. With a workspaceID,
// it covers that workspace only; empty: all.
func ReadStatus(ctx context.Context, pool pg.DB, workspaceID string) ([]Status, error) {
	list, err := pg.Collect(ctx, pool, func(row pgx.CollectableRow) (s Status, err error) {
		return s, row.Scan(&s.Name, &s.Position, &s.Visible, &s.LagEntries, &s.LagSeconds, &s.Failing)
	}, `
		SELECT substr(n.consumer, length($1) + 1), sum(coalesce(c.position, 0))::bigint, sum(v.position)::bigint,
		       sum(greatest(v.position - coalesce(c.position, 0), 0))::bigint,
		       coalesce(extract(epoch FROM clock_timestamp() - min(coalesce(e.appended_at, e.created_at))), 0)::float8,
		       count(*) FILTER (WHERE c.failures > 0)
		  FROM (SELECT DISTINCT consumer FROM log_checkpoint WHERE starts_with(consumer, $1)) n
		  JOIN log_checkpoint v ON v.consumer = 'read_models' AND ($2 = '' OR v.workspace_id = $2)
		  LEFT JOIN log_checkpoint c ON c.workspace_id = v.workspace_id AND c.consumer = n.consumer
		  LEFT JOIN event_log e ON v.position > coalesce(c.position, 0)
		       AND e.workspace_id = v.workspace_id AND e.position = coalesce(c.position, 0) + 1
		 GROUP BY n.consumer ORDER BY n.consumer`, consumerPrefix, workspaceID)
	if err != nil {
		return nil, fmt.Errorf("read the checkpoints of relays: %w", err)
	}
	for i := range list {
		if list[i].Errors, err = readFailing(ctx, pool, list[i].Name, workspaceID); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func readFailing(ctx context.Context, pool pg.DB, name, workspaceID string) ([]Failing, error) {
	list, err := pg.Collect(ctx, pool, pgx.RowToStructByPos[Failing], `
		SELECT workspace_id, position + 1, coalesce(error, ''), retry_at FROM log_checkpoint
		 WHERE consumer = $1 AND failures > 0 AND ($2 = '' OR workspace_id = $2)
		 ORDER BY workspace_id LIMIT $3`, Consumer(name), workspaceID, mostListed)
	if err != nil {
		return nil, fmt.Errorf("read which workspaces the relay %s cannot send: %w", name, err)
	}
	return list, nil
}
