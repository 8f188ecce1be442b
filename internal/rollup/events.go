package rollup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

const (
	// countEvery is how often the log is checked for events that are not counted.
	countEvery = 5 * time.Second
	// countTimeout bounds one check.
	countTimeout = 30 * time.Second
	// countWorkspaces and countEntries bound what one check reads: the workspaces, and the entries
	// of each.
	countWorkspaces = 500
	countEntries    = 5000
)

// Events counts the events of all workspaces, up to what the read models show. It follows the log
// independently of appending. Any number of processes may run one on a database: an event is
// counted once, in the transaction that moves the workspace's cursor past it.
type Events struct {
	pool   pg.DB
	clock  func() time.Time
	logger *slog.Logger
}

// NewEvents makes an Events.
func NewEvents(pool pg.DB, clock func() time.Time, logger *slog.Logger) *Events {
	return &Events{pool, clock, logger}
}

// Run counts until ctx is done, and returns nil.
func (e *Events) Run(ctx context.Context) error {
	outage := &flow.Outage{
		Logger:  e.logger,
		Failing: "events cannot be counted for the console's charts; they are counted later",
		Working: "events are counted for the console's charts again",
	}
	flow.Repeat(ctx, countEvery, outage, e.Count, func(error) {})
	return nil
}

// Count counts events that are not counted yet, up to a limit for each workspace; the next call
// goes on from there. It skips a workspace that another transaction has locked.
func (e *Events) Count(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	oldest := Hour.start(e.clock().Add(-hourRetention))
	type found struct {
		WorkspaceID string
		New         bool
	}
	// Workspaces that were never counted begin at the oldest hour that is kept. The order is
	// random, so that concurrent processes do not all try the same workspaces.
	list, err := pg.Collect(ctx, e.pool, pgx.RowToStructByPos[found], `
		SELECT v.workspace_id, c.workspace_id IS NULL
		  FROM log_checkpoint v LEFT JOIN event_rollup_cursor c ON c.workspace_id = v.workspace_id
		 WHERE v.consumer = 'read_models' AND v.position > coalesce(c.position, 0)
		 ORDER BY random()
		 LIMIT $1`, countWorkspaces)
	if err != nil {
		return fmt.Errorf("look for events to count: %w", err)
	}
	var errs []error
	for _, f := range list {
		err := e.countOf(ctx, f.WorkspaceID, f.New, oldest)
		if err != nil {
			errs = append(errs, fmt.Errorf("count the events of %s: %w", f.WorkspaceID, err))
		}
		if err != nil && !pg.Locked(err) {
			break // the database is in trouble
		}
	}
	return errors.Join(errs...)
}

// countOf counts the next events of a workspace.
func (e *Events) countOf(ctx context.Context, workspaceID string, isNew bool, oldest time.Time) error {
	return pg.InLimitedTx(ctx, e.pool, lockTimeout, func(tx pgx.Tx) error {
		if isNew {
			_, err := tx.Exec(ctx, `
				INSERT INTO event_rollup_cursor (workspace_id, position)
				VALUES ($1, log_position_since($1, $2) - 1)
				    ON CONFLICT DO NOTHING`, workspaceID, oldest)
			if err != nil {
				return fmt.Errorf("begin: %w", err)
			}
		}
		var from, to int64
		err := tx.QueryRow(ctx, `
			SELECT c.position, least(v.position, c.position + $2)
			  FROM event_rollup_cursor c JOIN log_checkpoint v ON v.workspace_id = c.workspace_id AND v.consumer = 'read_models'
			 WHERE c.workspace_id = $1 FOR UPDATE OF c SKIP LOCKED`, workspaceID, countEntries).Scan(&from, &to)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && to <= from {
			return nil // another process counts them
		}
		if err != nil {
			return fmt.Errorf("look where to begin: %w", err)
		}
		_, err = tx.Exec(ctx, `
			WITH minutes AS (
				SELECT date_bin('1 minute', created_at, 'epoch') AS at, count(*) AS n FROM event_log
				 WHERE workspace_id = $1 AND position > $2 AND position <= $3 AND public_event IS NOT NULL GROUP BY 1
			)
			INSERT INTO event_rollup AS t (workspace_id, step, at, events)
			(SELECT $1, 1, at, n FROM minutes
			 UNION ALL
			 SELECT $1, 60, date_bin('1 hour', at, 'epoch'), sum(n) FROM minutes GROUP BY 3)
			 ORDER BY 2, 3
			    ON CONFLICT (workspace_id, step, at) DO UPDATE SET events = t.events + excluded.events`, workspaceID, from, to)
		if err != nil {
			return fmt.Errorf("add: %w", err)
		}
		if _, err = tx.Exec(ctx, `UPDATE event_rollup_cursor SET position = $2 WHERE workspace_id = $1`, workspaceID, to); err != nil {
			return fmt.Errorf("move the cursor: %w", err)
		}
		return nil
	})
}
