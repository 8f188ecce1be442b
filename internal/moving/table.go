package moving

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// table is a table whose rows of a workspace are copied unchanged.
type table struct {
	name string
	// rows selects the rows to copy, named t: a FROM clause with the workspace as $1; empty: all
	// rows of the workspace.
	rows string
	// key lists the columns of the primary key after workspace_id, with their types, for tables
	// that are copied page by page.
	key []string
}

// opening returns the tables that are copied in the transaction that opens the new place, in an
// order that foreign keys allow. Tables with many rows follow in history.
func opening() []table {
	return []table{
		{name: "api_key"}, {name: "api_key_secret"}, {name: "api_key_use"}, {name: "rate_count"}, {name: "producer"}, {name: "producer_secret"},
		{name: "webhook"}, {name: "webhook_cursor"}, {name: "webhook_waiting"}, {name: "webhook_mail"},
		{name: "webhook_delivery", rows: waitingDeliveries}, {name: "webhook_delivery", rows: laterDeliveries},
		{name: "log_checkpoint", rows: `log_checkpoint t WHERE t.workspace_id = $1 AND t.consumer NOT IN ('read_models', 'event_trees')`},
		{name: "anomaly_acknowledged"}, {name: "console_session"}, {name: "console_link"}, {name: "cursor_key"},
		{name: "request_rollup", rows: `request_rollup` + recent}, {name: "key_rollup", rows: `key_rollup` + recent},
		{name: "attempt_rollup", rows: `attempt_rollup` + recent}, {name: "request_refused", rows: `request_refused t WHERE t.workspace_id = $1 AND t.minute > now() - interval '3 hours'`},
	}
}

// recent selects the intervals that may not be over. The new place's processes add to these rows,
// so they must be there when it opens.
const recent = ` t WHERE t.workspace_id = $1 AND t.at > now() - interval '3 hours'`

// The deliveries that a process reads when it takes over a webhook: pending ones, and those after
// the cursor or, while missed events are being sent, after the last missed event that is done.
const (
	waitingDeliveries = `webhook_waiting q JOIN webhook_delivery t
		  ON t.workspace_id = q.workspace_id AND t.webhook_id = q.webhook_id AND t.position = q.position AND t.created_at = q.created_at
	   WHERE q.workspace_id = $1`
	laterDeliveries = `webhook_cursor c JOIN webhook_delivery t
		  ON t.workspace_id = c.workspace_id AND t.webhook_id = c.webhook_id AND t.position > least(c.position, coalesce(c.replay_position, c.position))
	   WHERE c.workspace_id = $1`
)

// history returns the tables that are copied after the opening, page by page. The old place no
// longer changes them. Rows that the new place already has stay as they are.
func history() []table {
	return []table{
		{name: "webhook_delivery", key: []string{"webhook_id text", "position bigint", "created_at timestamptz"}},
		{name: "console_audit", key: []string{"at timestamptz", "audit_id uuid"}},
		{name: "request_rollup", key: []string{"step smallint", "at timestamptz", "route_class text", "status_class smallint"}},
		{name: "key_rollup", key: []string{"step smallint", "at timestamptz", "key_id text"}},
		{name: "attempt_rollup", key: []string{"step smallint", "at timestamptz", "webhook_id text", "outcome text"}},
		{name: "request_refused", key: []string{"minute timestamptz", "reason text", "key_id text"}},
		{name: "request_log", key: []string{"at timestamptz", "record_id uuid", "slot smallint"}},
	}
}

// Rows are copied as JSON objects, at most batchRows and about batchBytes per statement.
const (
	batchRows  = 1000
	batchBytes = 1 << 20
)

// copyAll copies a table's rows from one transaction to another.
func copyAll(ctx context.Context, m *Mover, from, to pgx.Tx, t *table) error {
	source := t.rows
	if source == "" {
		source = t.name + ` t WHERE t.workspace_id = $1`
	}
	columns, err := columnsOf(ctx, to, t.name)
	if err != nil {
		return err
	}
	rows, err := from.Query(ctx, `SELECT row_to_json(t)::text FROM `+source, m.cfg.WorkspaceID)
	if err != nil {
		return fmt.Errorf("read %s of %s: %w", t.name, m.cfg.WorkspaceID, err)
	}
	defer rows.Close()
	b := &jsonRows{}
	for rows.Next() {
		var object string
		if err := rows.Scan(&object); err != nil {
			return fmt.Errorf("read %s of %s: %w", t.name, m.cfg.WorkspaceID, err)
		}
		b.add(object)
		if b.full() {
			if _, err := b.write(ctx, to, t.name, columns); err != nil {
				return err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read %s of %s: %w", t.name, m.cfg.WorkspaceID, err)
	}
	_, err = b.write(ctx, to, t.name, columns)
	return err
}

// querier is a pool, or a transaction that must not ask its pool for a second connection.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// columnsOf returns a table's columns except workspace_id, as an SQL list.
func columnsOf(ctx context.Context, db querier, name string) (columns string, err error) {
	err = db.QueryRow(ctx, `
		SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
		 WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attname <> 'workspace_id'`, name).Scan(&columns)
	if err != nil {
		return "", fmt.Errorf("read the columns of %s: %w", name, err)
	}
	return columns, nil
}

// jsonRows collects rows as a JSON array.
type jsonRows struct {
	b strings.Builder
	n int
}

func (r *jsonRows) add(object string) {
	if r.n++; r.n > 1 {
		r.b.WriteByte(',')
	}
	r.b.WriteString(object)
}

func (r *jsonRows) full() bool { return r.n >= batchRows || r.b.Len() >= batchBytes }

// write inserts the rows, except those whose key is taken, and empties r.
func (r *jsonRows) write(ctx context.Context, tx pgx.Tx, name, columns string) (written int64, err error) {
	if r.n == 0 {
		return 0, nil
	}
	tag, err := tx.Exec(ctx, `
		INSERT INTO `+name+` (workspace_id, `+columns+`)
		SELECT workspace_id, `+columns+` FROM json_populate_recordset(NULL::`+name+`, $1::json) ON CONFLICT DO NOTHING`, "["+r.b.String()+"]")
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", name, err)
	}
	r.b.Reset()
	r.n = 0
	return tag.RowsAffected(), nil
}

// pageSQL returns the query for the next rows after a key, whose values are the parameters from $3
// on. It selects each row as JSON, and its key as texts. Unless begun, it starts at the first row.
func (t *table) pageSQL(begun bool) string {
	var key, after []string
	for i, k := range t.key {
		name, kind, _ := strings.Cut(k, " ")
		key = append(key, "t."+name)
		after = append(after, "$"+strconv.Itoa(i+3)+"::text::"+kind)
	}
	where := ""
	if begun {
		where = ` AND (` + strings.Join(key, ", ") + `) > (` + strings.Join(after, ", ") + `)`
	}
	return `SELECT row_to_json(t)::text, ARRAY[` + strings.Join(key, "::text, ") + `::text] FROM ` + t.name + ` t
		 WHERE t.workspace_id = $1` + where + ` ORDER BY ` + strings.Join(key, ", ") + ` LIMIT $2`
}
