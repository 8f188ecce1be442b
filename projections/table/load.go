package table

import (
	"slices"

	"github.com/jackc/pgx/v5"
)

// Lookup says which rows to load: by workspace and the values of some columns.
type Lookup struct {
	columns []string
	values  [][]string // an array for the workspaces, and one for each column

	most  int // see Bounded
	large func(workspaceID string, values []string)
}

// By makes a Lookup by columns that hold text.
func By(columns ...string) *Lookup {
	return &Lookup{columns: columns, values: make([][]string, 1+len(columns))}
}

// Bounded limits the lookup to most rows for each of its values, if any number of rows may hold
// one. large is called with each value that more rows hold.
func (l *Lookup) Bounded(most int, large func(workspaceID string, values []string)) *Lookup {
	l.most, l.large = most, large
	return l
}

// Add asks for the rows that hold the values, which are in the order of the columns.
func (l *Lookup) Add(workspaceID string, values ...string) {
	l.values[0] = append(l.values[0], workspaceID)
	for i, v := range values {
		l.values[1+i] = append(l.values[1+i], v)
	}
}

// Budget limits how much is loaded.
type Budget struct {
	Bytes    int64 // that may still be loaded; reading a row deducts its size
	Exceeded bool  // more rows were needed and are not loaded
}

func (b *Budget) take(raw [][]byte) bool {
	for _, v := range raw {
		b.Bytes -= int64(len(v))
	}
	b.Exceeded = b.Exceeded || b.Bytes < 0
	return !b.Exceeded
}

// QueueLoad queues a query for the rows of the lookup. When it runs, it puts them into the folds of
// their workspaces as long as the budget lasts.
func (t *Table) QueueLoad(b *pgx.Batch, l *Lookup, folds map[string]*Fold, budget *Budget) {
	if len(l.values[0]) == 0 {
		return
	}
	keep := l.keep(budget)
	queue := func(sql string, args []any) {
		b.Queue(sql, args...).Query(func(found pgx.Rows) error {
			return t.load(found, folds, func(n int64) bool { return keep(found, n) })
		})
	}
	if slices.ContainsFunc(l.values[0], func(w string) bool { return w != l.values[0][0] }) {
		queue(t.loadBy(l), arguments(l.values))
		return
	}
	if l.large == nil {
		queue(loadIn(t, l), append([]any{l.values[0][0]}, arguments(l.values[1:])...))
		return
	}
	numbers := make([]int64, len(l.values[0]))
	for i := range numbers {
		numbers[i] = int64(i + 1)
	}
	queue(loadBounded(t, l), append([]any{l.values[0][0], numbers}, arguments(l.values[1:])...))
}

// bounded is the most rows that one statement loads for a bounded lookup, so that it reads few rows
// that the budget then refuses.
const bounded = 20_000

// keep returns a function that counts the rows as they are read and reports whether to load them. n
// says which of the lookup's values found the row, from 1; without a limit per value it is 0.
func (l *Lookup) keep(budget *Budget) func(found pgx.Rows, n int64) bool {
	if l.large == nil {
		return func(found pgx.Rows, _ int64) bool { return budget.take(found.RawValues()) }
	}
	rows := 0
	of := make([]int, len(l.values[0]))
	return func(found pgx.Rows, n int64) bool {
		n--
		rows++
		of[n]++
		if of[n] == l.most+1 {
			values := make([]string, len(l.columns))
			for i := range values {
				values[i] = l.values[1+i][n]
			}
			l.large(l.values[0][n], values)
		}
		budget.Exceeded = budget.Exceeded || rows > bounded
		return budget.take(found.RawValues()) && of[n] <= l.most
	}
}

func arguments(arrays [][]string) []any {
	args := make([]any, len(arrays))
	for i, a := range arrays {
		args[i] = a
	}
	return args
}
