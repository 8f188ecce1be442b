package table

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Fold is the fold of a workspace's log, or of a segment with the rows that the
// segment needs. It keeps all anomalies, which a domain.State forgets at Reset.
type Fold struct {
	State     *domain.State
	anomalies []domain.Anomaly // from before the last Reset, in the order of the log
}

// NewFold returns the fold of an empty log.
func NewFold() *Fold { return &Fold{State: domain.NewState()} }

// Reset clears the record of changed rows; rows and anomalies stay.
func (f *Fold) Reset() {
	f.anomalies = append(f.anomalies, f.State.Anomalies...)
	f.State.Reset()
}

// store is where a Fold keeps the rows of one table, by unique ids. For rows with two key columns,
// the domain joins both into the id.
type store[P any] interface {
	Get(id string) P
	All(visit func(P))
	Load(row P)
	Changed() []P
	Gone() []string // ids of deleted rows
}

// anomalies is the store of a Fold's anomalies. Nothing loads or deletes them.
type anomalies struct{ *Fold }

// anomalyID is the id of an anomaly in the store.
func anomalyID(k Key) string { return k[0] + "/" + k[1] }

func (a anomalies) Get(id string) *domain.Anomaly {
	number, reason, _ := strings.Cut(id, "/")
	position, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return nil // not even a position
	}
	for _, list := range [][]domain.Anomaly{a.anomalies, a.State.Anomalies} {
		i, _ := slices.BinarySearchFunc(list, position, func(x domain.Anomaly, p int64) int { return int(x.Position - p) })
		for ; i < len(list) && list[i].Position == position; i++ {
			if string(list[i].Reason) == reason {
				return &list[i]
			}
		}
	}
	return nil
}

func (a anomalies) All(visit func(*domain.Anomaly)) {
	for i := range a.anomalies {
		visit(&a.anomalies[i])
	}
	for _, x := range a.Changed() {
		visit(x)
	}
}

func (a anomalies) Load(*domain.Anomaly) {}

func (a anomalies) Changed() []*domain.Anomaly {
	list := make([]*domain.Anomaly, len(a.State.Anomalies))
	for i := range list {
		list[i] = &a.State.Anomalies[i]
	}
	return list
}

func (a anomalies) Gone() []string { return nil }

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
