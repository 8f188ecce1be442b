package table

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// querier is a pool, a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Page is consecutive rows of a read table in the order of their keys, from one snapshot.
type Page struct {
	Checkpoint int64 // of the workspace's read models in that snapshot
	Keys       []Key
	Values     [][][]byte // the values of Columns for each of Keys; NULL is nil
	found      map[Key]struct{}
	rows, size int // the rows asked for, and the bytes in Values
}

// Holds reports whether a row is on the page.
func (p *Page) Holds(k Key) bool {
	_, found := p.found[k]
	return found
}

// Last returns the greatest key of the page, or nil if this is the last page.
func (p *Page) Last() *Key {
	if len(p.Keys) < p.rows {
		return nil
	}
	last := slices.MaxFunc(p.Keys, CompareKeys)
	return &last
}

// pageBytes is about how many bytes a page holds, unless its rows are much larger than those of the
// page before.
const pageBytes = 2 << 20

// NextRows returns how many rows to ask for after this page.
func (p *Page) NextRows() int { return NextRows(p.rows, p.size) }

// NextRows returns how many rows to read next, after so many rows with so many bytes.
func NextRows(rows, bytes int) int {
	if bytes <= pageBytes {
		return min(2*rows, PageRows)
	}
	return max(1, rows*pageBytes/bytes)
}

// ReadPage reads up to most rows of a workspace after a key.
func (t *Table) ReadPage(ctx context.Context, from querier, workspaceID string, after Key, most int) (*Page, error) {
	page, err := t.readPage(ctx, from, workspaceID, after, most)
	if err != nil {
		return nil, fmt.Errorf("read the rows of %s in %s: %w", t.Name, workspaceID, err)
	}
	if page.Checkpoint < 0 {
		return nil, fmt.Errorf("workspace %s has no checkpoint for its read models", workspaceID)
	}
	return page, nil
}

func (t *Table) readPage(ctx context.Context, from querier, workspaceID string, after Key, most int) (*Page, error) {
	rows, err := from.Query(ctx, t.sql.page, append(t.keyArguments(workspaceID, after), most)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	page := &Page{Checkpoint: -1, rows: most}
	for rows.Next() {
		if page.Checkpoint < 0 {
			if err := rows.Scan(append([]any{&page.Checkpoint}, make([]any, len(t.Keys)+len(t.Columns))...)...); err != nil {
				return nil, err
			}
		}
		if raw := rows.RawValues()[1:]; raw[0] != nil { // an empty page has only the checkpoint
			k, values := t.split(raw)
			page.Keys, page.Values = append(page.Keys, k), append(page.Values, values)
			for _, v := range values {
				page.size += len(v)
			}
		}
	}
	page.found = make(map[Key]struct{}, len(page.Keys))
	for _, k := range page.Keys {
		page.found[k] = struct{}{}
	}
	return page, rows.Err()
}

// Pick reads rows of a workspace by their keys.
func (t *Table) Pick(ctx context.Context, from querier, workspaceID string, keys []Key) (map[Key][][]byte, error) {
	columns := make([][]string, len(t.Keys))
	for _, k := range keys {
		for i := range columns {
			columns[i] = append(columns[i], k[i])
		}
	}
	rows, err := from.Query(ctx, t.sql.pick, append([]any{workspaceID}, arguments(columns)...)...)
	if err != nil {
		return nil, fmt.Errorf("read the rows of %s in %s: %w", t.Name, workspaceID, err)
	}
	defer rows.Close()
	picked := make(map[Key][][]byte, len(keys))
	for rows.Next() {
		k, values := t.split(rows.RawValues())
		picked[k] = values
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the rows of %s in %s: %w", t.Name, workspaceID, err)
	}
	return picked, nil
}

// KeysSince calls each with the keys of a workspace's rows that were changed
// after a position.
func (t *Table) KeysSince(ctx context.Context, from querier, workspaceID string, position int64, each func(Key) error) error {
	return t.keys(ctx, from, t.sql.since, []any{workspaceID, position}, each)
}

// KeysAfter returns a page of the keys of a workspace's rows, in order: those after a key and,
// unless through is nil, up to and including *through.
func (t *Table) KeysAfter(ctx context.Context, from querier, workspaceID string, after Key, through *Key) ([]Key, error) {
	sql, args := t.sql.after, t.keyArguments(workspaceID, after)
	if through != nil {
		sql, args = t.sql.until, append(args, t.keyArguments(workspaceID, *through)[1:]...)
	}
	keys := make([]Key, 0, PageRows)
	err := t.keys(ctx, from, sql, args, func(k Key) error {
		keys = append(keys, k)
		return nil
	})
	return keys, err
}

// keys runs a statement that selects keys. The first argument is the workspace.
func (t *Table) keys(ctx context.Context, from querier, sql string, args []any, each func(Key) error) error {
	rows, err := from.Query(ctx, sql, args...)
	if err != nil {
		return fmt.Errorf("list the rows of %s in %s: %w", t.Name, args[0], err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(keyOf(rows.RawValues())); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("list the rows of %s in %s: %w", t.Name, args[0], err)
	}
	return nil
}

// keyArguments returns a workspace and a key as parameters.
func (t *Table) keyArguments(workspaceID string, k Key) []any {
	args := []any{workspaceID}
	for i := range t.Keys {
		args = append(args, k[i])
	}
	return args
}

// keyOf copies a key out of the connection's buffer.
func keyOf(raw [][]byte) (k Key) {
	for i := range raw {
		k[i] = string(raw[i])
	}
	return k
}

// split copies a row out of the connection's buffer.
func (t *Table) split(raw [][]byte) (k Key, values [][]byte) {
	k = keyOf(raw[:len(t.Keys)])
	raw = raw[len(t.Keys):]
	size := 0
	for _, v := range raw {
		size += len(v)
	}
	buffer, values := make([]byte, 0, size), make([][]byte, len(raw))
	for i, v := range raw {
		if v == nil {
			continue
		}
		start := len(buffer)
		buffer = append(buffer, v...)
		values[i] = buffer[start:len(buffer):len(buffer)]
	}
	return k, values
}

// NewestPosition returns the position of the newest entry that changed any row of a workspace, or 0
// if there are no rows.
func NewestPosition(ctx context.Context, from querier, tables []*Table, workspaceID string) (position int64, err error) {
	newest := make([]string, len(tables))
	for i, t := range tables {
		newest[i] = "(SELECT max(position) FROM " + t.Name + " WHERE workspace_id = $1)"
	}
	err = from.QueryRow(ctx, "SELECT coalesce(greatest("+strings.Join(newest, ", ")+"), 0)", workspaceID).Scan(&position)
	if err != nil {
		return 0, fmt.Errorf("read which entry the rows of %s show last: %w", workspaceID, err)
	}
	return position, nil
}
