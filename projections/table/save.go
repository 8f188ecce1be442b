package table

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Row is a row that a table must hold.
type Row struct {
	Key    Key
	Values []string // of Columns, "" for NULL
}

// arrays holds rows as parameters: an array for each column, workspace_id first. Statements that
// delete take only the arrays of the primary key.
type arrays [][]string

func (t *Table) arrays(values int) arrays { return make(arrays, 1+len(t.Keys)+values) }

// add appends one row. Without values, for a statement that deletes, all arrays belong to the key.
func (a arrays) add(workspaceID string, k Key, values []string) {
	a[0] = append(a[0], workspaceID)
	keys := len(a) - 1 - len(values)
	for i := range keys {
		a[1+i] = append(a[1+i], k[i])
	}
	for i, v := range values {
		a[1+keys+i] = append(a[1+keys+i], v)
	}
}

// queueBytes is about how many bytes of rows one statement writes.
const queueBytes = 1 << 20

// QueueSave calls queue with the statements that write what has changed in the folds of workspaces
// since their last Reset. A statement writes a limited number of bytes. full says that it has
// reached the limit, so queue may send what it has so far.
func (t *Table) QueueSave(workspaces []string, folds map[string]*Fold, queue func(sql string, args []any, full bool) error) error {
	save := t.sql.save
	if t.appendOnly {
		save = t.sql.add // a row that already exists is an error
	}
	changed := t.arrays(len(t.Columns))
	values := make([]string, len(t.Columns))
	size := 0
	var err error
	for _, w := range workspaces {
		f := folds[w]
		deleted := t.arrays(0)
		t.Deleted(f, func(k Key) { deleted.add(w, k, nil) })
		if len(deleted[0]) > 0 && err == nil {
			err = queue(t.sql.drop, deletion(w, deleted), false)
		}
		t.Changed(f, func(k Key) {
			t.Expected(f, k, values)
			changed.add(w, k, values)
			for _, v := range values {
				size += len(v)
			}
			if size >= queueBytes && err == nil {
				err = queue(save, arguments(changed), true)
				changed, size = t.arrays(len(t.Columns)), 0
			}
		})
	}
	if len(changed[0]) > 0 && err == nil {
		err = queue(save, arguments(changed), false)
	}
	return err
}

// deletion returns the arguments of the statement that deletes rows of a workspace.
func deletion(workspaceID string, keys arrays) []any {
	return append([]any{workspaceID}, arguments(keys[1:])...)
}

// Delete deletes rows of a workspace.
func (t *Table) Delete(ctx context.Context, tx pgx.Tx, workspaceID string, keys []Key) error {
	a := t.arrays(0)
	for _, k := range keys {
		a.add(workspaceID, k, nil)
	}
	if _, err := tx.Exec(ctx, t.sql.drop, deletion(workspaceID, a)...); err != nil {
		return fmt.Errorf("delete rows of %s in %s: %w", t.Name, workspaceID, err)
	}
	return nil
}

// Save inserts rows of a workspace, or updates those that exist.
func (t *Table) Save(ctx context.Context, tx pgx.Tx, workspaceID string, rows []Row) error {
	a := t.arrays(len(t.Columns))
	for _, r := range rows {
		a.add(workspaceID, r.Key, r.Values)
	}
	if _, err := tx.Exec(ctx, t.sql.save, arguments(a)...); err != nil {
		return fmt.Errorf("write rows of %s in %s: %w", t.Name, workspaceID, err)
	}
	return nil
}

// Copy inserts new rows of a workspace, faster than Save.
func (t *Table) Copy(ctx context.Context, tx pgx.Tx, workspaceID string, rows []Row) error {
	escapes := strings.NewReplacer("\\", `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`)
	var lines bytes.Buffer
	lines.Grow(len(rows) * copyRowBytes)
	for _, r := range rows {
		lines.WriteString(workspaceID)
		for i := range t.Keys {
			lines.WriteByte('\t')
			_, _ = escapes.WriteString(&lines, r.Key[i]) // writing to a buffer never fails
		}
		for _, v := range r.Values {
			if v == "" {
				lines.WriteString("\t\\N")
				continue
			}
			lines.WriteByte('\t')
			_, _ = escapes.WriteString(&lines, v)
		}
		lines.WriteByte('\n')
	}
	if _, err := tx.Conn().PgConn().CopyFrom(ctx, &lines, t.copySQL()); err != nil {
		return fmt.Errorf("copy rows into %s in %s: %w", t.Name, workspaceID, err)
	}
	return nil
}

// copyRowBytes is about how many bytes a row takes in the text format of COPY.
const copyRowBytes = 1200
