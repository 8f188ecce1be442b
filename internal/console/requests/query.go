package requests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

// position is where a page of the log ended, and what names one request.
type position struct {
	At    time.Time `json:"a"`
	ID    uuid.UUID `json:"i"`
	Newer bool      `json:"n,omitempty"` // the page is that of newer requests than this
}

// newest is the position before the first page: after every request.
func newest() position { return position{At: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)} }

// maxScan is how many requests are looked at for one page at most. What an index finds
// is less; for the rest the page says how far it looked.
const maxScan = 10_000

// query selects requests, the newest first.
type query struct {
	workspaceID string
	filter
	since time.Time // when the oldest request that is kept was made
	now   time.Time
	start position // the page is of older requests than this, or of newer ones
	limit int
}

// found is a page of requests.
type found struct {
	list []row
	more bool      // there are more in the direction of the query
	end  *position // where the search gave up after maxScan requests; nil: it did not
}

// planned has each statement planned for its arguments: for others, another index is the
// right one. A plan for all arguments would be kept after some executions.
const planned = pgx.QueryExecModeCacheDescribe

const (
	columns = `at, record_id, request_id, key_id, key_prefix, method, route, status, duration_us, bytes, row_count, path, address, user_agent, problem`
	// shown are the columns as scan reads them.
	shown = `at, record_id, request_id, key_id, key_prefix, method, route, status, duration_us, bytes, row_count,
	coalesce(path, ''), coalesce(host(address), ''), coalesce(user_agent, ''), problem`
)

func scan(collectable pgx.CollectableRow) (row, error) {
	var r row
	err := collectable.Scan(&r.At, &r.RecordID, &r.ID, &r.KeyID, &r.Prefix, &r.Method, &r.Route, &r.Status, &r.Micros, &r.Bytes, &r.Rows,
		&r.Path, &r.Address, &r.Agent, &r.Problem)
	r.At = r.At.UTC()
	return r, err
}

// statement is what finds a page, with its arguments. Narrowed tells that it does not
// list every request that it looks at.
func (q *query) statement() (sql string, args []any, narrowed bool) {
	b := q.builder()
	inner := b.scanned(columns, q.start, maxScan)
	rest := b.rest()
	return fmt.Sprintf("SELECT %s FROM (%s) r WHERE %s%s LIMIT %d", shown, inner, rest, q.start.order(), q.limit+1), b.args, rest != all
}

// find returns a page of requests.
func find(ctx context.Context, pool *pgxpool.Pool, q *query) (*found, error) {
	sql, args, narrowed := q.statement()
	rows, err := pool.Query(ctx, sql, slices.Concat([]any{planned}, args)...)
	if err != nil {
		return nil, fmt.Errorf("cannot read requests: %w", err)
	}
	f := &found{}
	if f.list, err = pgx.CollectRows(rows, scan); err != nil {
		return nil, fmt.Errorf("cannot read requests: %w", err)
	}
	if len(f.list) > q.limit {
		f.list, f.more = f.list[:q.limit], true
	} else if narrowed {
		if f.end, err = findEnd(ctx, pool, q); err != nil {
			return nil, err
		}
	}
	if q.start.Newer {
		slices.Reverse(f.list)
	}
	return f, nil
}

// findEnd returns the last of maxScan requests; nil: there are fewer.
func findEnd(ctx context.Context, pool *pgxpool.Pool, q *query) (*position, error) {
	b := q.builder()
	p := position{Newer: q.start.Newer}
	reverse := position{Newer: !q.start.Newer}
	inner := b.scanned("at, record_id", q.start, maxScan)
	var n int
	err := pool.QueryRow(ctx, `SELECT at, record_id, count(*) OVER () FROM (`+inner+`) r`+reverse.order()+` LIMIT 1`, slices.Concat([]any{planned}, b.args)...).Scan(&p.At, &p.ID, &n)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && n < maxScan {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read how far requests were searched: %w", err)
	}
	return &p, nil
}

// order lists from the position on.
func (p position) order() string {
	if p.Newer {
		return " ORDER BY at, record_id"
	}
	return " ORDER BY at DESC, record_id DESC"
}

// builder makes the statements of a query.
type builder struct {
	q    *query
	args []any
}

func (q *query) builder() *builder { return &builder{q: q} }

func (b *builder) arg(value any) string {
	b.args = append(b.args, value)
	return fmt.Sprintf("$%d", len(b.args))
}

// scanned is the statement of the requests that are looked at, at most limit: those of the
// time that are met by the one filter for which there is an index. rest has the others.
func (b *builder) scanned(columns string, start position, limit int) string {
	q := b.q
	until := q.now.Add(time.Hour) // the clocks of other processes
	if !q.to.IsZero() && q.to.Before(until) {
		until = q.to
	}
	since := q.since
	if q.from.After(since) {
		since = q.from
	}
	var sql strings.Builder
	fmt.Fprintf(&sql, "SELECT %s FROM request_log WHERE workspace_id = %s AND at >= %s AND at < %s", columns, b.arg(q.workspaceID), b.arg(since), b.arg(until))
	// Not as a parameter, because only then partitions without such requests are left out.
	switch slots := requestlog.Slots(since, until); {
	case len(slots) == 0: // the time ended before the oldest request that is kept
		sql.WriteString(" AND false")
	case len(slots) < requestlog.Partitions:
		fmt.Fprintf(&sql, " AND slot IN (%s)", strings.Trim(strings.Join(strings.Fields(fmt.Sprint(slots)), ","), "[]"))
	}
	operator := "<"
	if start.Newer {
		operator = ">"
	}
	fmt.Fprintf(&sql, " AND (at, record_id) %s (%s, %s)", operator, b.arg(start.At), b.arg(start.ID))
	switch q.driving() {
	case byRequestID:
		sql.WriteString(" AND request_id = " + b.arg(q.requestID))
	case byPath:
		sql.WriteString(" AND path = " + b.arg(q.path))
	case byError:
		sql.WriteString(" AND status >= 400")
	case byKey:
		sql.WriteString(" AND key_id = " + b.arg(q.key))
	case byTime:
	}
	fmt.Fprintf(&sql, "%s LIMIT %d", start.order(), limit)
	return sql.String()
}

// all is what rest returns where there is no further filter.
const all = "true"

// rest is the condition of the filters that scanned leaves out.
func (b *builder) rest() string {
	q, by := b.q, b.q.driving()
	parts := []string{}
	if q.key != "" && by != byKey {
		parts = append(parts, "key_id = "+b.arg(q.key))
	}
	if q.route != "" {
		parts = append(parts, "route = "+b.arg(q.route))
	}
	// The error index holds what it says; the exact status is still to be compared.
	if from, to, ok := q.statuses(); ok {
		parts = append(parts, "status >= "+b.arg(from)+" AND status < "+b.arg(to))
	}
	if len(parts) == 0 {
		return all
	}
	return strings.Join(parts, " AND ")
}

// findOne returns one request. The error is web.ErrNotFound, or the database's.
func findOne(ctx context.Context, pool *pgxpool.Pool, workspaceID string, p position) (*row, error) {
	rows, err := pool.Query(ctx, `
		SELECT `+shown+` FROM request_log WHERE workspace_id = $1 AND at = $2 AND record_id = $3 AND slot = ANY ($4)`,
		workspaceID, p.At, p.ID, requestlog.Slots(p.At, p.At))
	if err != nil {
		return nil, fmt.Errorf("cannot read a request: %w", err)
	}
	r, err := pgx.CollectOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, web.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read a request: %w", err)
	}
	return &r, nil
}
