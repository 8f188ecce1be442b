package console

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// history reads what happened: events, attempts, requests. It writes nothing.
type history struct {
	pool      *pgxpool.Pool
	clock     func() time.Time
	retention time.Duration
	tallies   *tallies
}

func newHistory(pool *pgxpool.Pool, clock func() time.Time, retention time.Duration) *history {
	return &history{pool: pool, clock: clock, retention: retention, tallies: newTallies(pool)}
}

// eventQuery asks for events, the newest first.
type eventQuery struct {
	workspaceID    string
	typ            string    // empty: every
	before         time.Time // published before; zero: all
	beforePosition int64     // at lower positions; 0: all
	oldest         time.Time // kept since
	limit          int
}

// events gives the public forms, and the position to go on before; 0 on the
// last page. As in the feed, an event shows only when the read models hold it.
func (h *history) events(ctx context.Context, q eventQuery) (list []string, next int64, err error) {
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
	rows, err := h.pool.Query(ctx, `
		WITH place AS MATERIALIZED (
			SELECT log_position_since($1, $2) AS first,
			       least(c.position, coalesce(log_position_since($1, $3) - 1, c.position), CASE WHEN $4::bigint > 0 THEN $4 - 1 ELSE c.position END) AS last
			  FROM log_checkpoint c WHERE c.workspace_id = $1 AND c.consumer = '`+eventlog.ReadModels+`'
		)
		SELECT e.position, e.public_event FROM event_log e
		 WHERE e.workspace_id = $1 AND e.public_event IS NOT NULL
		   AND e.position >= (SELECT first FROM place) AND e.position <= (SELECT last FROM place)`+filter+`
		 ORDER BY e.position DESC LIMIT $5`, args...)
	if err != nil {
		return nil, 0, fmt.Errorf("read events: %w", err)
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
		return nil, 0, fmt.Errorf("read events: %w", err)
	}
	if len(list) > q.limit {
		return list[:q.limit], positions[q.limit-1], nil
	}
	return list, 0, nil
}

// attempts counts attempts by hour, succeeded and failed ones, over the last
// 24 hours; of one webhook, or with an empty id of all.
func (h *history) attempts(ctx context.Context, workspaceID, webhookID string, now time.Time) ([]bar, error) {
	last := now.Truncate(time.Hour)
	bars := emptyBars(last.Add(-23*time.Hour), time.Hour, 24, 2)
	rows, err := h.pool.Query(ctx, `
		SELECT hour, outcome = 'success', sum(attempts)::bigint FROM webhook_hour
		 WHERE workspace_id = $1 AND ($2 = '' OR webhook_id = $2) AND hour >= $3
		 GROUP BY 1, 2`, workspaceID, webhookID, bars[0].At)
	if err != nil {
		return nil, fmt.Errorf("count attempts: %w", err)
	}
	var (
		hour    time.Time
		success bool
		n       int64
	)
	_, err = pgx.ForEachRow(rows, []any{&hour, &success, &n}, func() error {
		if i := int(hour.Sub(bars[0].At) / time.Hour); i >= 0 && i < len(bars) {
			kind := 1
			if success {
				kind = 0
			}
			bars[i].Counts[kind] += n
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count attempts: %w", err)
	}
	return bars, nil
}

// requestQuery asks for requests, the newest first.
type requestQuery struct {
	workspaceID string
	keyID       string // empty: every
	class       string // first digit of the status, 2 with 3; empty: every
	after       requestPlace
	limit       int
}

const requestColumns = `at, record_id, request_id, key_id, key_prefix, method, route, status, duration_us, bytes, row_count`

func scanRequest(row pgx.CollectableRow) (requestRow, error) {
	var r requestRow
	err := row.Scan(&r.At, &r.RecordID, &r.ID, &r.KeyID, &r.Prefix, &r.Method, &r.Route, &r.Status, &r.Micros, &r.Bytes, &r.Rows)
	r.At = r.At.UTC()
	return r, err
}

// requests gives requests, and whether there are more.
func (h *history) requests(ctx context.Context, q requestQuery) (list []requestRow, more bool, err error) {
	args := []any{q.workspaceID, h.clock().Add(-h.retention), q.after.At, q.after.ID, q.limit + 1}
	var where strings.Builder
	if q.keyID != "" {
		args = append(args, q.keyID)
		fmt.Fprintf(&where, " AND key_id = $%d", len(args))
	}
	if class, err := strconv.Atoi(q.class); err == nil {
		from, to := class*100, class*100+100
		if class == 2 {
			to = 400
		}
		args = append(args, from, to)
		fmt.Fprintf(&where, " AND status >= $%d AND status < $%d", len(args)-1, len(args))
	}
	rows, err := h.pool.Query(ctx, `
		SELECT `+requestColumns+` FROM request_log
		 WHERE workspace_id = $1 AND at > $2 AND (at, record_id) < ($3, $4)`+where.String()+`
		 ORDER BY at DESC, record_id DESC LIMIT $5`, args...)
	if err != nil {
		return nil, false, fmt.Errorf("read requests: %w", err)
	}
	if list, err = pgx.CollectRows(rows, scanRequest); err != nil {
		return nil, false, fmt.Errorf("read requests: %w", err)
	}
	if len(list) > q.limit {
		return list[:q.limit], true, nil
	}
	return list, false, nil
}

// request gives one request. The error is errNotHere, or the database's.
func (h *history) request(ctx context.Context, workspaceID string, p requestPlace) (*requestRow, error) {
	rows, err := h.pool.Query(ctx, `
		SELECT `+requestColumns+` FROM request_log WHERE workspace_id = $1 AND at = $2 AND record_id = $3`, workspaceID, p.At, p.ID)
	if err != nil {
		return nil, fmt.Errorf("read a request: %w", err)
	}
	r, err := pgx.CollectOneRow(rows, scanRequest)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, errNotHere
	}
	if err != nil {
		return nil, fmt.Errorf("read a request: %w", err)
	}
	return &r, nil
}

// refused counts the refused requests of the last 24 hours by reason.
func (h *history) refused(ctx context.Context, workspaceID string) ([]refusedRow, error) {
	rows, err := h.pool.Query(ctx, `
		SELECT reason, sum(refused)::bigint FROM request_refused
		 WHERE workspace_id = $1 AND minute > $2 GROUP BY reason ORDER BY 2 DESC, reason`, workspaceID, h.clock().Add(-24*time.Hour))
	if err != nil {
		return nil, fmt.Errorf("count refused requests: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[refusedRow])
	if err != nil {
		return nil, fmt.Errorf("count refused requests: %w", err)
	}
	return list, nil
}

// emptyBars are bars of one width, without counts.
func emptyBars(from time.Time, width time.Duration, n, kinds int) []bar {
	bars := make([]bar, n)
	for i := range bars {
		bars[i] = bar{At: from.Add(time.Duration(i) * width).UTC(), Counts: make([]int64, kinds)}
	}
	return bars
}
