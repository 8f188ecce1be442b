package supportbundle

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// question is a part that the database answers: rows, in the statement's order, as
// objects with the names of its columns. Those named workspace and webhook are ids, which
// are replaced.
type question struct{ file, about, sql string }

func (q question) gather(ctx context.Context, s *source) ([]byte, error) {
	if s.pool == nil {
		return nil, fault("the database cannot be read")
	}
	rows, err := s.pool.Query(ctx, q.sql)
	if err != nil {
		return nil, fmt.Errorf("cannot ask for %s: %w", q.file, err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil {
		return nil, fmt.Errorf("cannot ask for %s: %w", q.file, err)
	}
	for _, row := range list {
		for _, kind := range []string{"workspace", "webhook"} {
			if id, ok := row[kind].(string); ok {
				row[kind] = s.hide.of(kind, id)
			}
		}
		for name, v := range row {
			if at, ok := v.(time.Time); ok {
				row[name] = at.UTC()
			}
		}
	}
	if list == nil {
		list = []map[string]any{}
	}
	return write(list)
}
