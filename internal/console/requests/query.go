package requests

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

// row is a request of the request log.
type row struct {
	At       time.Time
	RecordID uuid.UUID
	ID       string // of X-Request-Id
	KeyID    string
	Prefix   string
	Method   string
	Route    string // the pattern; empty: an unknown path
	Status   int
	Micros   int64
	Bytes    int64
	Rows     int64
	KeyName  string // empty for a key that is not known any more

	// Empty for requests that an earlier version has recorded.
	Path    string // percent-encoded; empty where it is the route
	Address string // of the caller
	Agent   string // the header User-Agent
	Problem *requestlog.Problem
}

// Target is the path as far as it is known: for requests of earlier versions the route.
func (r *row) Target() string { return cmp.Or(r.Path, r.Route) }

// Why tells in some words what an error was about; empty where the status says it.
func (r *row) Why() string {
	switch {
	case r.Problem == nil:
		return ""
	case r.Problem.Permission != "":
		return "lacks " + r.Problem.Permission
	case len(r.Problem.Errors) == 1:
		return r.Problem.Errors[0].Field + " " + r.Problem.Errors[0].Message
	}
	names := make([]string, len(r.Problem.Errors))
	for i, e := range r.Problem.Errors {
		names[i] = e.Field
	}
	return strings.Join(names, ", ")
}

// Cursor names the request in addresses.
func (r *row) Cursor() string { return web.FormatCursor(position{r.At, r.RecordID}) }

// Millis is how long the request took.
func (r *row) Millis() float64 { return float64(r.Micros) / 1000 }

// Look is the badge of its status.
func (r *row) Look() string {
	switch {
	case r.Status >= 500:
		return "bad"
	case r.Status >= 400:
		return "warn"
	}
	return "good"
}

// position is where a page of the log ended, and what names one request.
type position struct {
	At time.Time `json:"a"`
	ID uuid.UUID `json:"i"`
}

// newest is the position before the first page: after every request.
func newest() position { return position{At: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)} }

// query selects requests, the newest first.
type query struct {
	workspaceID string
	keyID       string // empty: every
	class       string // first digit of the status, 2 with 3; empty: every
	since       time.Time
	olderThan   position
	limit       int
}

const columns = `at, record_id, request_id, key_id, key_prefix, method, route, status, duration_us, bytes, row_count,
	coalesce(path, ''), coalesce(host(address), ''), coalesce(user_agent, ''), problem`

func scan(collectable pgx.CollectableRow) (row, error) {
	var r row
	err := collectable.Scan(&r.At, &r.RecordID, &r.ID, &r.KeyID, &r.Prefix, &r.Method, &r.Route, &r.Status, &r.Micros, &r.Bytes, &r.Rows,
		&r.Path, &r.Address, &r.Agent, &r.Problem)
	r.At = r.At.UTC()
	return r, err
}

// find returns requests, and whether there are more.
func find(ctx context.Context, pool *pgxpool.Pool, q query) (list []row, more bool, err error) {
	args := []any{q.workspaceID, q.since, q.olderThan.At, q.olderThan.ID, q.limit + 1}
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
	rows, err := pool.Query(ctx, `
		SELECT `+columns+` FROM request_log
		 WHERE workspace_id = $1 AND at > $2 AND (at, record_id) < ($3, $4)`+where.String()+`
		 ORDER BY at DESC, record_id DESC LIMIT $5`, args...)
	if err != nil {
		return nil, false, fmt.Errorf("cannot read requests: %w", err)
	}
	if list, err = pgx.CollectRows(rows, scan); err != nil {
		return nil, false, fmt.Errorf("cannot read requests: %w", err)
	}
	if len(list) > q.limit {
		return list[:q.limit], true, nil
	}
	return list, false, nil
}

// findOne returns one request. The error is web.ErrNotFound, or the database's.
func findOne(ctx context.Context, pool *pgxpool.Pool, workspaceID string, p position) (*row, error) {
	rows, err := pool.Query(ctx, `
		SELECT `+columns+` FROM request_log WHERE workspace_id = $1 AND at = $2 AND record_id = $3`, workspaceID, p.At, p.ID)
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

// refusal is how many requests were refused for a reason.
type refusal struct {
	Reason string
	Count  int64
}

// Label describes the reason.
func (r refusal) Label() string {
	switch r.Reason {
	case "rate_limit":
		return "Over the key's limit (429)"
	case "revoked":
		return "With a revoked key (401)"
	case "expired":
		return "With an expired key (401)"
	case "rotated":
		return "With a secret that was rotated (401)"
	case "slow_down":
		return "Too many refused keys from one address (429)"
	case "key_in_url":
		return "With the key in the address (400)"
	case "method":
		return "With another method than GET (405)"
	}
	return r.Reason
}

// refusals counts the refused requests since a moment by reason.
func refusals(ctx context.Context, pool *pgxpool.Pool, workspaceID string, since time.Time) ([]refusal, error) {
	rows, err := pool.Query(ctx, `
		SELECT reason, sum(refused)::bigint FROM request_refused
		 WHERE workspace_id = $1 AND minute > $2 GROUP BY reason ORDER BY 2 DESC, reason`, workspaceID, since)
	if err != nil {
		return nil, fmt.Errorf("cannot count refused requests: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[refusal])
	if err != nil {
		return nil, fmt.Errorf("cannot count refused requests: %w", err)
	}
	return list, nil
}
