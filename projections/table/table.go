// Package table describes the read tables: their columns, and how rows of the domain become SQL
// rows. The projector uses these descriptions to load and save rows. Replay uses them to read,
// compare, repair and explain rows.
//
// A new column of a read table needs a migration, one line in catalogue.go, and a new
// projections.RulesVersion. A test compares the descriptions with the schema.
package table

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Table describes one read table. Every table has a column workspace_id, which
// begins its primary key and is not among Keys and Columns.
type Table struct {
	Name string // in SQL

	// Label names the table in differences. Resource is the resource of the API whose rebuild
	// includes the table; "" if only a rebuild of everything does. For the invoices both are
	// "invoices".
	Label, Resource string

	Keys    []Column // the primary key after workspace_id: one or two columns
	Columns []Column // all others

	rowAccess
	appendOnly bool // the projector inserts rows and never changes them
	tombstones bool // the rows are tombstones
	sql        statements
}

// Column is a column of a read table.
type Column struct {
	Name string
	typ  sqlType

	// Fragment marks a part of the answer: the fragments of a row join to a JSON object (see
	// domain.Fragments).
	Fragment bool

	// HiddenBecause says why readers do not see a row whose boolean is false;
	// "" for columns that hide nothing.
	HiddenBecause string
}

// sqlType is the type of a column.
type sqlType string

const (
	typeText    sqlType = "text"
	typeBigint  sqlType = "bigint"
	typeNumeric sqlType = "numeric"
	typeBoolean sqlType = "boolean"
)

// Key identifies a row within its workspace: the values of Table.Keys. Numbers
// are padded with zeros, so that keys compare as texts. The second value is ""
// in tables with one key column.
type Key [2]string

// CompareKeys orders keys as the primary key does.
func CompareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
}

// padded formats a number for a Key.
func padded(n int64) string { return fmt.Sprintf("%019d", n) }

// HasID reports whether the rows are answers of the API with an id.
func (t *Table) HasID() bool { return len(t.Keys) == 1 && !t.tombstones }

// First returns a key that sorts before every key of the table.
func (t *Table) First() Key {
	if t.Keys[0].typ == typeBigint {
		return Key{padded(0)}
	}
	return Key{}
}

// KeyName formats a key for people.
func (t *Table) KeyName(k Key) string {
	if t.Keys[0].typ == typeBigint {
		k[0] = strings.TrimLeft(k[0], "0")
	}
	return strings.TrimSuffix(k[0]+"/"+k[1], "/")
}

// Answer formats a whole row for people: the answer with all its fragments or, in tables without
// fragments, the columns. values are the values of Columns.
func (t *Table) Answer(values []string) string {
	answer, columns := "", ""
	for i, c := range t.Columns {
		if c.Fragment {
			answer += values[i]
		}
		columns += c.Name + " " + values[i]
	}
	if answer != "" {
		return answer + "}"
	}
	return columns
}

// Equal reports whether a stored row is as expected. Both hold the values of Columns as text; NULL
// is nil in a stored row and "" in an expected one.
func Equal(stored [][]byte, expected []string) bool {
	for i, want := range expected {
		if string(stored[i]) != want || stored[i] == nil != (want == "") {
			return false
		}
	}
	return true
}

// rowAccess is how a Table accesses the Go rows of a Fold.
type rowAccess interface {
	// Expected fills values with the row that, by the fold, the table must hold under this key: the
	// values of Columns as text, "" for NULL. It returns false if there must be no such row.
	Expected(f *Fold, k Key, values []string) bool

	// Position returns the position of the entry that last changed the row, or 0 if there is no
	// such row.
	Position(f *Fold, k Key) int64

	// Each calls visit with the key of every row, in no particular order. Changed does so for the
	// rows that were created or changed since the fold's last Reset and still exist. Deleted does
	// so for the stored rows that were deleted since then, which only tables with an id have.
	Each(f *Fold, visit func(Key))
	Changed(f *Fold, visit func(Key))
	Deleted(f *Fold, visit func(Key))

	// load reads the found rows into the folds of their workspaces, except rows for whose number
	// keep returns false. The columns found are a number, workspace_id and loadedColumns.
	load(found pgx.Rows, folds map[string]*Fold, keep func(n int64) bool) error
	loadedColumns() []string
}
