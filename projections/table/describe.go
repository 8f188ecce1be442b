package table

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// description says how a Go type of the domain is kept in a read table.
type description[R any] struct {
	name            string
	label, resource string // see Table

	rows  func(*Fold) store[*R]
	row   func(*R) *domain.Row // nil where nothing is ever loaded
	rowID func(Key) string     // the id in rows; nil: the first key column

	keys    []field[R]
	columns []field[R]

	// fragments are the columns that hold the answer: the first of base, pay and
	// margin. render makes them of a row, and read a row of them; read is nil when
	// the fold needs only other columns.
	fragments []string
	render    func(*R) domain.Fragments
	read      func(*R, domain.Fragments) error

	appendOnly bool
}

// field is a column and the field of the Go type that holds its value.
type field[R any] struct {
	name string
	at   func(*R) any // a *string, *int64 or *bool

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

// answers describes the table of a resource: beside the columns of its
// description it has an id, a position and fragments.
func answers[R any, P answer[R]](d description[R]) *Table {
	d.label = d.resource
	d.keys = []field[R]{{name: "id", at: func(r *R) any { return &d.row(r).ID }}}
	d.columns = append([]field[R]{{name: "position", at: func(r *R) any { return &d.row(r).Position }, loaded: true}}, d.columns...)
	d.render = func(r *R) domain.Fragments { return P(r).Fragments() }
	d.read = func(r *R, f domain.Fragments) error { return P(r).Read(f) }
	return describe(d)
}

// describe makes the Table of a description.
func describe[R any](d description[R]) *Table {
	if d.rowID == nil {
		d.rowID = func(k Key) string { return k[0] }
	}
	t := &Table{Name: d.name, Label: d.label, Resource: d.resource, appendOnly: d.appendOnly}
	access := &typedAccess[R]{description: d}
	for _, f := range d.keys {
		t.Keys = append(t.Keys, f.column())
		access.loaded = append(access.loaded, f)
	}
	for _, f := range d.columns {
		t.Columns = append(t.Columns, f.column())
		if f.loaded {
			access.loaded = append(access.loaded, f)
		}
	}
	for _, f := range slices.Concat(d.keys, d.columns) {
		if f.name == "position" {
			access.positionAt = f.at
		}
	}
	for _, part := range d.fragments {
		t.Columns = append(t.Columns, Column{Name: part, Type: Text, Fragment: true})
	}
	t.rows = access
	t.sql = t.statements(access.loadedColumns())
	return t
}

func (f *field[R]) column() Column {
	c := Column{Name: f.name, Type: Text, HiddenBecause: f.hiddenBecause}
	switch f.at(new(R)).(type) {
	case *int64:
		c.Type = Bigint
	case *bool:
		c.Type = Boolean
	}
	return c
}

// text is the value of a column as text.
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

// rowAccess is what a Table does with rows of its Go type.
type rowAccess interface {
	expected(f *Fold, k Key, values []string) bool
	position(f *Fold, k Key) int64
	each(f *Fold, visit func(Key))
	changed(f *Fold, visit func(Key))
	deleted(f *Fold, visit func(Key))
	load(found pgx.Rows, folds map[string]*Fold) error
}

type typedAccess[R any] struct {
	description[R]
	loaded     []field[R]
	positionAt func(*R) any // the column position, which every table has
}

// loadedColumns are the columns that load expects, in its order.
func (a *typedAccess[R]) loadedColumns() []string {
	var names []string
	for _, f := range a.loaded {
		names = append(names, f.name)
	}
	if a.read != nil {
		names = append(names, a.fragments...)
	}
	return names
}

func (a *typedAccess[R]) key(row *R) (k Key) {
	for i := range a.keys {
		value := a.keys[i].at(row)
		if n, ok := value.(*int64); ok {
			k[i] = padded(*n)
		} else {
			k[i] = text(value)
		}
	}
	return k
}

func (a *typedAccess[R]) get(f *Fold, k Key) *R { return a.rows(f).Get(a.rowID(k)) }

func (a *typedAccess[R]) expected(f *Fold, k Key, values []string) bool {
	row := a.get(f, k)
	if row == nil {
		return false
	}
	for i := range a.columns {
		values[i] = text(a.columns[i].at(row))
	}
	if a.render != nil {
		parts := a.render(row)
		copy(values[len(a.columns):], []string{parts.Base, parts.Pay, parts.Margin}[:len(a.fragments)])
	}
	return true
}

func (a *typedAccess[R]) position(f *Fold, k Key) int64 {
	row := a.get(f, k)
	if row == nil {
		return 0
	}
	p, _ := a.positionAt(row).(*int64)
	return *p
}

func (a *typedAccess[R]) each(f *Fold, visit func(Key)) {
	a.rows(f).All(func(row *R) { visit(a.key(row)) })
}

func (a *typedAccess[R]) changed(f *Fold, visit func(Key)) {
	for _, row := range a.rows(f).Changed() {
		visit(a.key(row))
	}
}

func (a *typedAccess[R]) deleted(f *Fold, visit func(Key)) {
	for _, id := range a.rows(f).Gone() {
		visit(Key{id})
	}
}

// load reads found rows, workspace_id and loadedColumns, into the folds of
// their workspaces.
func (a *typedAccess[R]) load(found pgx.Rows, folds map[string]*Fold) error {
	var (
		workspaceID string
		f           domain.Fragments
	)
	dest := make([]any, 1+len(a.loaded), 1+len(a.loaded)+len(a.fragments))
	dest[0] = &workspaceID
	if a.read != nil {
		dest = append(dest, []any{&f.Base, &f.Pay, &f.Margin}[:len(a.fragments)]...)
	}
	for found.Next() {
		row := new(R)
		for i := range a.loaded {
			dest[1+i] = a.loaded[i].at(row)
		}
		if err := found.Scan(dest...); err != nil {
			return fmt.Errorf("load from %s: %w", a.name, err)
		}
		id := a.rowID(a.key(row))
		if a.read != nil {
			if err := a.read(row, f); err != nil {
				return fmt.Errorf("cannot read the row %s of %s in workspace %s; ledgerfeed rebuild repairs it, or converts it when another version wrote it: %w",
					id, a.name, workspaceID, err)
			}
		}
		a.row(row).ID = id
		a.rows(folds[workspaceID]).Load(row)
	}
	if err := found.Err(); err != nil {
		return fmt.Errorf("load from %s: %w", a.name, err)
	}
	return nil
}
