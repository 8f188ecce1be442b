package table

import "github.com/jackc/pgx/v5"

// Lookup says which rows to load: the values of some columns, in each of some
// workspaces.
type Lookup struct {
	columns []string
	values  [][]string // an array for the workspaces, and one for each column
}

// By makes a Lookup by columns that hold text.
func By(columns ...string) *Lookup {
	return &Lookup{columns: columns, values: make([][]string, 1+len(columns))}
}

// Add asks for the rows that hold the values, in the order of the columns.
func (l *Lookup) Add(workspaceID string, values ...string) {
	l.values[0] = append(l.values[0], workspaceID)
	for i, v := range values {
		l.values[1+i] = append(l.values[1+i], v)
	}
}

// QueueLoad queues a query for the rows of the lookup, which puts them into the
// folds of their workspaces.
func (t *Table) QueueLoad(b *pgx.Batch, l *Lookup, folds map[string]*Fold) {
	if len(l.values[0]) == 0 {
		return
	}
	b.Queue(t.loadBy(l.columns), arguments(l.values)...).Query(func(found pgx.Rows) error {
		return t.load(found, folds)
	})
}

func arguments(arrays [][]string) []any {
	args := make([]any, len(arrays))
	for i, a := range arrays {
		args[i] = a
	}
	return args
}
