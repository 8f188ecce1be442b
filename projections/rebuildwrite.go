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
func (r *refold) repairSheet(ctx context.Context, tx pgx.Tx, number int, suspects map[key]struct{}, b *Rebuilt) error {
	s := r.sheets[number]
	if err := s.since(ctx, tx, r.workspaceID, r.settled, suspects); err != nil {
		return err
	}
	keys := make([]key, 0, len(suspects)+len(r.touched[number]))
	for k := range suspects {
		keys = append(keys, k)
	}
	for k := range r.touched[number] {
		if _, twice := suspects[k]; !twice {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, compareKeys)
	w := sheetWriter{refold: r, sheet: s, tx: tx}
	image := make([]string, len(s.columns))
	for part := range slices.Chunk(keys, rowPage) {
		stored := make(map[key]struct{}, len(part))
		err := s.pick(ctx, tx, r.workspaceID, part, func(k key, values [][]byte) {
			stored[k] = struct{}{}
			switch {
			case !s.image(r, k, image):
				w.gone = append(w.gone, k)
			case !same(values, image):
				w.changed = append(w.changed, k)
			}
		})
		if err != nil {
			return err
		}
		for _, k := range part {
			if _, there := stored[k]; !there && s.image(r, k, image) {
				w.missing = append(w.missing, k)
			}
		}
		if err := w.write(ctx); err != nil {
			return err
		}
	}
	b.Written += w.written
	b.Deleted += w.deleted
	return nil
}

// since adds the rows that were written after a position.
func (s *sheet) since(ctx context.Context, tx pgx.Tx, workspaceID string, position int64, to map[key]struct{}) error {
	rows, err := tx.Query(ctx, s.sinceSQL, workspaceID, position)
	if err != nil {
		return fmt.Errorf("find new rows of %s in %s: %w", s.table, workspaceID, err)
	}
	defer rows.Close()
	for rows.Next() {
		var k key
		for i, raw := range rows.RawValues() {
			k[i] = string(raw)
		}
		to[k] = struct{}{}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("find new rows of %s in %s: %w", s.table, workspaceID, err)
	}
	return nil
}

// sheetWriter writes rows of one table of one workspace.
type sheetWriter struct {
	*refold
	*sheet
	tx                     pgx.Tx
	gone, changed, missing []key
	written, deleted       int64
	lines                  bytes.Buffer
}

// write writes what has gathered.
func (w *sheetWriter) write(ctx context.Context) error {
	if len(w.gone) > 0 {
		if _, err := w.tx.Exec(ctx, w.deleteSQL, w.keyArrays(w.workspaceID, w.gone)...); err != nil {
			return fmt.Errorf("delete rows of %s in %s: %w", w.table, w.workspaceID, err)
		}
	}
	if len(w.changed) > 0 {
		if _, err := w.tx.Exec(ctx, w.upsertSQL, w.columnArrays(w.changed)...); err != nil {
			return fmt.Errorf("write rows of %s in %s: %w", w.table, w.workspaceID, err)
		}
	}
	if len(w.missing) > 0 {
		if err := w.copyIn(ctx, w.missing); err != nil {
			return fmt.Errorf("copy rows into %s in %s: %w", w.table, w.workspaceID, err)
		}
	}
	w.deleted += int64(len(w.gone))
	w.written += int64(len(w.changed) + len(w.missing))
	w.cfg.Meter.RowsWritten.Add(int64(len(w.gone) + len(w.changed) + len(w.missing)))
	w.gone, w.changed, w.missing = w.gone[:0], w.changed[:0], w.missing[:0]
	return nil
}

// columnArrays are rows as parameters of the upsert: an array a column.
func (w *sheetWriter) columnArrays(keys []key) []any {
	args := w.keyArrays(w.workspaceID, keys)
	columns := make([][]string, len(w.columns))
	image := make([]string, len(w.columns))
	for _, k := range keys {
		w.image(w.refold, k, image)
		for i, v := range image {
			columns[i] = append(columns[i], v)
		}
	}
	for _, c := range columns {
		args = append(args, c)
	}
	return args
}

// copyIn adds rows that are not there: nobody else can, while the checkpoint is
// locked.
func (w *sheetWriter) copyIn(ctx context.Context, keys []key) error {
	names := []string{"workspace_id"}
	for _, k := range w.keys {
		names = append(names, k.name)
	}
	for _, c := range w.columns {
		names = append(names, c.name)
	}
	w.lines.Reset()
	image := make([]string, len(w.columns))
	for _, k := range keys {
		w.image(w.refold, k, image)
		w.lines.WriteString(w.workspaceID)
		for i := range w.keys {
			w.lines.WriteByte('\t')
			appendCopy(&w.lines, k[i])
		}
		for _, v := range image {
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
	return err //nolint:wrapcheck // said by the caller
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
