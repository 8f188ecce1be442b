package moving

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// copyHistory copies what no append, reader or delivery needs, and returns the number of rows. It
// stores its progress together with the rows, so that an interrupted copy can continue.
func (m *Mover) copyHistory(ctx context.Context) (copied int64, err error) {
	m.cfg.Step(StepHistory)
	for _, t := range history() {
		n, err := copyTable(ctx, m, &t)
		copied += n
		if err != nil {
			return copied, err
		}
	}
	return copied, m.cfg.To.inTx(ctx, func(tx pgx.Tx) error {
		r, err := m.lockRow(ctx, tx)
		if err != nil || !m.is(r, open) {
			return err
		}
		return m.set(ctx, tx, complete)
	})
}

func copyTable(ctx context.Context, m *Mover, t *table) (copied int64, err error) {
	columns, err := columnsOf(ctx, m.cfg.To.Pool, t.name)
	if err != nil {
		return 0, err
	}
	for {
		n, more, err := copyPage(ctx, m, t, columns)
		copied += n
		if err != nil || !more {
			return copied, err
		}
	}
}

// copyPage copies the next rows of a table; more says that there may be others.
func copyPage(ctx context.Context, m *Mover, t *table, columns string) (written int64, more bool, err error) {
	err = m.cfg.To.inTx(ctx, func(tx pgx.Tx) error {
		var after []string
		err := tx.QueryRow(ctx, `
			SELECT ARRAY(SELECT jsonb_array_elements_text(m.progress -> $2)) FROM workspace_move m
			 WHERE m.workspace_id = $1 AND m.move_id = $3::uuid FOR UPDATE`, m.cfg.WorkspaceID, t.name, m.id).Scan(&after)
		if err != nil {
			return fmt.Errorf("read how far %s of %s is copied: %w", t.name, m.cfg.WorkspaceID, err)
		}
		b, last, err := readPage(ctx, m, t, after)
		if err != nil || b.n == 0 {
			return err
		}
		more = b.full()
		if written, err = b.write(ctx, tx, t.name, columns); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE workspace_move SET progress = progress || jsonb_build_object($2::text, to_jsonb($3::text[])) WHERE workspace_id = $1`,
			m.cfg.WorkspaceID, t.name, last)
		if err != nil {
			return fmt.Errorf("note how far %s of %s is copied: %w", t.name, m.cfg.WorkspaceID, err)
		}
		return nil
	})
	return written, more && err == nil, err
}

// readPage reads the next rows of a table at the old place, and the key of the last one.
func readPage(ctx context.Context, m *Mover, t *table, after []string) (b *jsonRows, last []string, err error) {
	args := []any{m.cfg.WorkspaceID, batchRows}
	for _, value := range after {
		args = append(args, value)
	}
	rows, err := m.cfg.From.Pool.Query(ctx, t.pageSQL(len(after) > 0), args...)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s of %s: %w", t.name, m.cfg.WorkspaceID, err)
	}
	defer rows.Close()
	b = &jsonRows{}
	var object string
	for !b.full() && rows.Next() {
		if err := rows.Scan(&object, &last); err != nil {
			return nil, nil, fmt.Errorf("read %s of %s: %w", t.name, m.cfg.WorkspaceID, err)
		}
		b.add(object)
	}
	if !b.full() {
		if err := rows.Err(); err != nil {
			return nil, nil, fmt.Errorf("read %s of %s: %w", t.name, m.cfg.WorkspaceID, err)
		}
	}
	return b, last, nil
}
