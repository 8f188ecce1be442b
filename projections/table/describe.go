package table

import (
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// description says how a read table keeps a Go type of the domain.
type description[R any] struct {
	name            string
	label, resource string // see Table

	rows  func(*Fold) store[*R]
	rowID func(Key) string     // the id in rows; nil: the first key column
	row   func(*R) *domain.Row // its position becomes a column

	// position points to the position in a type without a domain.Row. Such rows are never loaded.
	position func(*R) *int64

	keys    []field[R]
	columns []field[R]

	// fragments are the columns that hold the answer: the first of base, pay and margin. render
	// makes them from a row, and read fills a row from them. read is nil if the fold needs only
	// other columns.
	fragments []string
	render    func(*R) domain.Fragments
	read      func(*R, domain.Fragments) error

	appendOnly bool

	loads []field[R] // what load reads besides fragments; set by describe
}

// field is a column and the field of the Go type that holds its value.
type field[R any] struct {
	name string
	at   func(*R) any // a *string, *int64 or *bool; nil: see derived

	// derived returns the value as text, "" for NULL, if the column repeats what the fragments hold in
	// another form, so that statements can filter by it or add it up. typ is the column's type.
	derived func(*R) string
	typ     sqlType

	loaded        bool   // the fold needs the value and no fragment holds it
	hiddenBecause string // see Column
}

// answer is a resource of the API that the domain renders in fragments and
// reads back from them.
type answer[R any] interface {
	*R
	Fragments() domain.Fragments
	Read(domain.Fragments) error
}

// answers describes the table of a resource, which has an id and fragments besides the columns of
// its description.
func answers[R any, P answer[R]](d description[R]) *Table {
	d.label = d.resource
	d.keys = []field[R]{{name: "id", at: func(r *R) any { return &d.row(r).ID }}}
	d.render = func(r *R) domain.Fragments { return P(r).Fragments() }
	d.read = func(r *R, f domain.Fragments) error { return P(r).Read(f) }
	return describe(d)
}

// describe makes the Table of a description.
func describe[R any](d description[R]) *Table {
	if d.rowID == nil {
		d.rowID = func(k Key) string { return k[0] }
	}
	if d.position == nil {
		d.position = func(r *R) *int64 { return &d.row(r).Position }
		d.columns = append([]field[R]{{name: "position", at: func(r *R) any { return d.position(r) }, loaded: true}}, d.columns...)
	}
	t := &Table{Name: d.name, Label: d.label, Resource: d.resource, appendOnly: d.appendOnly, rowAccess: &d}
	for _, f := range d.keys {
		t.Keys = append(t.Keys, f.column())
		d.loads = append(d.loads, f)
	}
	for _, f := range d.columns {
		t.Columns = append(t.Columns, f.column())
		if f.loaded {
			d.loads = append(d.loads, f)
		}
	}
	for _, name := range d.fragments {
		t.Columns = append(t.Columns, Column{Name: name, typ: typeText, Fragment: true})
	}
	t.sql = t.statements()
	return t
}

func (f *field[R]) column() Column {
	c := Column{Name: f.name, typ: typeText, HiddenBecause: f.hiddenBecause}
	if f.derived != nil {
		c.typ = f.typ
		return c
	}
	switch f.at(new(R)).(type) {
	case *int64:
		c.typ = typeBigint
	case *bool:
		c.typ = typeBoolean
	}
	return c
}

// value returns the value of the column in a row, as text.
func (f *field[R]) value(row *R) string {
	if f.derived != nil {
		return f.derived(row)
	}
	return text(f.at(row))
}

// text formats the value of a column.
func text(value any) string {
	switch v := value.(type) {
	case *string:
		return *v
	case *int64:
		return strconv.FormatInt(*v, 10)
	case *bool:
		return strconv.FormatBool(*v)
	}
	panic(fmt.Sprintf("table: a column cannot hold a %T", value))
}

func (d *description[R]) loadedColumns() []string {
	var names []string
	for _, f := range d.loads {
		names = append(names, f.name)
	}
	if d.read != nil {
		names = append(names, d.fragments...)
	}
	return names
}

func (d *description[R]) key(row *R) (k Key) {
	for i := range d.keys {
		value := d.keys[i].at(row)
		if n, ok := value.(*int64); ok {
			k[i] = padded(*n)
		} else {
			k[i] = text(value)
		}
	}
	return k
}

func (d *description[R]) get(f *Fold, k Key) *R { return d.rows(f).Get(d.rowID(k)) }

func (d *description[R]) Expected(f *Fold, k Key, values []string) bool {
	row := d.get(f, k)
	if row == nil {
		return false
	}
	for i := range d.columns {
		values[i] = d.columns[i].value(row)
	}
	if d.render != nil {
		parts := d.render(row)
		copy(values[len(d.columns):], []string{parts.Base, parts.Pay, parts.Margin}[:len(d.fragments)])
	}
	return true
}

func (d *description[R]) Position(f *Fold, k Key) int64 {
	if row := d.get(f, k); row != nil {
		return *d.position(row)
	}
	return 0
}

func (d *description[R]) Each(f *Fold, visit func(Key)) {
	d.rows(f).All(func(row *R) { visit(d.key(row)) })
}

func (d *description[R]) Changed(f *Fold, visit func(Key)) {
	for _, row := range d.rows(f).Changed() {
		visit(d.key(row))
	}
}

func (d *description[R]) Deleted(f *Fold, visit func(Key)) {
	for _, id := range d.rows(f).Gone() {
		visit(Key{id})
	}
}

func (d *description[R]) load(found pgx.Rows, folds map[string]*Fold, keep func(n int64) bool) error {
	var (
		n           int64
		workspaceID string
		f           domain.Fragments
	)
	const before = 2 // the number and workspace_id
	dest := make([]any, before+len(d.loads), before+len(d.loads)+len(d.fragments))
	dest[0], dest[1] = &n, &workspaceID
	if d.read != nil {
		dest = append(dest, []any{&f.Base, &f.Pay, &f.Margin}[:len(d.fragments)]...)
	}
	for found.Next() {
		row := new(R)
		for i := range d.loads {
			dest[before+i] = d.loads[i].at(row)
		}
		if err := found.Scan(dest...); err != nil {
			return fmt.Errorf("load from %s: %w", d.name, err)
		}
		if !keep(n) {
			continue
		}
		id := d.rowID(d.key(row))
		if d.read != nil {
			if err := d.read(row, f); err != nil {
				return fmt.Errorf("cannot read the row %s of %s in workspace %s; ledgerfeed rebuild repairs it, or converts it when another version wrote it: %w",
					id, d.name, workspaceID, err)
			}
		}
		d.row(row).ID = id
		d.rows(folds[workspaceID]).Load(row)
	}
	if err := found.Err(); err != nil {
		return fmt.Errorf("load from %s: %w", d.name, err)
	}
	return nil
}
