package projections

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// repairSheet compares, under the lock, every row that may be wrong, and writes
// those that are: rows found before, rows that the fold has changed since, and
// rows that the projector has written since, which may have followed from wrong
// ones.
func (r *refold) repairSheet(ctx context.Context, tx pgx.Tx, s *sheet, b *Rebuilt) error {
	if err := s.doubtSince(ctx, tx, r); err != nil {
		return err
	}
	w := sheetWriter{sheet: s, workspaceID: r.workspaceID, tx: tx}
	err := r.rows.doubted(ctx, s, func(keys []key) error {
		stored := make(map[key][][]byte, len(keys))
		if err := s.pick(ctx, tx, r.workspaceID, keys, func(k key, values [][]byte) { stored[k] = values }); err != nil {
			return err
		}
		err := r.rows.images(ctx, s, keys, func(i int, image []string) error {
			w.take(keys[i], stored[keys[i]], image)
			return nil
		})
		if err != nil {
			return err
		}
		n, err := w.write(ctx)
		r.cfg.Meter.RowsWritten.Add(n)
		return err
	})
	b.Written += w.written
	b.Deleted += w.deleted
	return err
}

// doubtSince doubts the rows that were written after the first fold.
func (s *sheet) doubtSince(ctx context.Context, tx pgx.Tx, r *refold) error {
	rows, err := tx.Query(ctx, s.sinceSQL, r.workspaceID, r.settled)
	if err != nil {
		return fmt.Errorf("find new rows of %s in %s: %w", s.table, r.workspaceID, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := r.rows.doubt(ctx, s, rawKey(rows.RawValues())); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("find new rows of %s in %s: %w", s.table, r.workspaceID, err)
	}
	return nil
}

// sheetWriter writes rows of one table of one workspace.
type sheetWriter struct {
	*sheet
	workspaceID      string
	tx               pgx.Tx
	gone             []key
	changed, missing []sheetRow
	written, deleted int64
	lines            bytes.Buffer
}

// sheetRow is a row as it must be.
type sheetRow struct {
	key   key
	image []string
}

// take keeps what is to be done about a row; see visitor.
func (w *sheetWriter) take(k key, stored [][]byte, image []string) {
	switch {
	case stored == nil && image == nil:
	case image == nil:
		w.gone = append(w.gone, k)
	case stored == nil:
		w.missing = append(w.missing, sheetRow{k, slices.Clone(image)})
	case !same(stored, image):
		w.changed = append(w.changed, sheetRow{k, slices.Clone(image)})
	}
}

// write writes what has gathered, and returns how many rows that were.
func (w *sheetWriter) write(ctx context.Context) (n int64, err error) {
	if len(w.gone) > 0 {
		if _, err := w.tx.Exec(ctx, w.deleteSQL, w.keyArrays(w.workspaceID, w.gone)...); err != nil {
			return 0, fmt.Errorf("delete rows of %s in %s: %w", w.table, w.workspaceID, err)
		}
	}
	if len(w.changed) > 0 {
		if _, err := w.tx.Exec(ctx, w.upsertSQL, w.columnArrays(w.changed)...); err != nil {
			return 0, fmt.Errorf("write rows of %s in %s: %w", w.table, w.workspaceID, err)
		}
	}
	if len(w.missing) > 0 {
		if err := w.copyIn(ctx, w.missing); err != nil {
			return 0, fmt.Errorf("copy rows into %s in %s: %w", w.table, w.workspaceID, err)
		}
	}
	w.deleted += int64(len(w.gone))
	w.written += int64(len(w.changed) + len(w.missing))
	n = int64(len(w.gone) + len(w.changed) + len(w.missing))
	w.gone, w.changed, w.missing = w.gone[:0], w.changed[:0], w.missing[:0]
	return n, nil
}

// columnArrays are rows as parameters of the upsert: an array a column.
func (w *sheetWriter) columnArrays(rows []sheetRow) []any {
	keys := make([]key, len(rows))
	columns := make([][]string, len(w.columns))
	for i, row := range rows {
		keys[i] = row.key
		for j, v := range row.image {
			columns[j] = append(columns[j], v)
		}
	}
	args := w.keyArrays(w.workspaceID, keys)
	for _, c := range columns {
		args = append(args, c)
	}
	return args
}

// copyIn adds rows that are not there: nobody else can, while the checkpoint is
// locked.
func (w *sheetWriter) copyIn(ctx context.Context, rows []sheetRow) error {
	names := []string{"workspace_id"}
	for _, k := range w.keys {
		names = append(names, k.name)
	}
	for _, c := range w.columns {
		names = append(names, c.name)
	}
	w.lines.Reset()
	for _, row := range rows {
		w.lines.WriteString(w.workspaceID)
		for i := range w.keys {
			w.lines.WriteByte('\t')
			appendCopy(&w.lines, row.key[i])
		}
		for _, v := range row.image {
			w.lines.WriteByte('\t')
			if v == "" {
				w.lines.WriteString(`\N`)
			} else {
				appendCopy(&w.lines, v)
			}
		}
		w.lines.WriteByte('\n')
	}
	_, err := w.tx.Conn().PgConn().CopyFrom(ctx, &w.lines, "COPY "+w.table+" ("+strings.Join(names, ", ")+") FROM STDIN")
	return err //nolint:wrapcheck // the caller names the table
}

// appendCopy writes a text in the form of COPY.
func appendCopy(b *bytes.Buffer, text string) {
	for {
		i := strings.IndexAny(text, "\\\t\n\r")
		if i < 0 {
			b.WriteString(text)
			return
		}
		b.WriteString(text[:i])
		b.WriteByte('\\')
		switch text[i] {
		case '\t':
			b.WriteByte('t')
		case '\n':
			b.WriteByte('n')
		case '\r':
			b.WriteByte('r')
		default:
			b.WriteByte('\\')
		}
		text = text[i+1:]
	}
}
