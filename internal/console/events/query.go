package events

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// query selects events, the newest first.
type query struct {
	workspaceID    string
	typ            string    // empty: every
	before         time.Time // published before; zero: all
	beforePosition int64     // at lower positions; 0: all
	oldest         time.Time // published since
	pay            bool      // with those that need pay:read
	limit          int
}

// find returns events in their public form, and the position before which the next
// page starts; 0 on the last page. As in the feed, an event shows only when the
// read models have its effect.
func find(ctx context.Context, pool *pgxpool.Pool, q query) (list []string, next int64, err error) {
	var before *time.Time
	if !q.before.IsZero() {
		before = &q.before
	}
	args := []any{q.workspaceID, q.oldest, before, q.beforePosition, q.limit + 1}
	filter := ""
	if q.typ != "" {
		args = append(args, q.typ)
		filter = ` AND e.type = $6`
	}
	if !q.pay {
		filter += ` AND NOT ` + eventlog.NeedsPay("e")
	}
	rows, err := pool.Query(ctx, `
		WITH page AS MATERIALIZED (
			SELECT log_position_since($1, $2) AS first,
			       least(c.position, coalesce(log_position_since($1, $3) - 1, c.position), CASE WHEN $4::bigint > 0 THEN $4 - 1 ELSE c.position END) AS last
			  FROM log_checkpoint c WHERE c.workspace_id = $1 AND c.consumer = '`+eventlog.ReadModels+`'
		)
		SELECT e.position, e.public_event FROM event_log e
		 WHERE e.workspace_id = $1 AND e.public_event IS NOT NULL
		   AND e.position >= (SELECT first FROM page) AND e.position <= (SELECT last FROM page)`+filter+`
		 ORDER BY e.position DESC LIMIT $5`, args...)
	if err != nil {
		return nil, 0, fmt.Errorf("cannot read events: %w", err)
	}
	var (
		position  int64
		positions []int64
		event     string
	)
	_, err = pgx.ForEachRow(rows, []any{&position, &event}, func() error {
		list, positions = append(list, event), append(positions, position)
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("cannot read events: %w", err)
	}
	if len(list) > q.limit {
		return list[:q.limit], positions[q.limit-1], nil
	}
	return list, 0, nil
}
