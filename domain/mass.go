package domain

import (
	"fmt"
	"slices"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// change is an update of every row of a resource that refers to an object, however many there are.
// A rename, for example, changes every row of a client. It is data, so that a State can apply it to
// the rows that it holds and a store to the rows that it does not load (MassChange).
//
// An entry changes each row at most once: if several changes match a row, only the first one
// applies.
type change struct {
	of    []reference // a row must have all of these; the first is used to find it
	where []choice    // and one of the values of each of these
	set   []value

	// inPlace leaves the rows' places in lists as they are: the history of a credit stays in the
	// order of its entries.
	inPlace bool
}

// reference says that a row refers to an object.
type reference struct {
	rel relation
	id  string
}

// choice is a field and the values that match.
type choice struct {
	field  string
	values []any // as in value
}

// value is a field and its value: a string ("" is null), a bool or a Party.
type value struct {
	field string
	to    any
}

// is limits a change to rows whose field has one of the values.
func is[V string | bool](field string, values ...V) choice {
	c := choice{field: field}
	for _, v := range values {
		c.values = append(c.values, v)
	}
	return c
}

func holds(at, v any) bool {
	switch at := at.(type) {
	case *string:
		return *at == v
	case *bool:
		return *at == v
	case *Party:
		return *at == v
	}
	panic(fmt.Sprintf("domain: a change cannot compare a %T", at))
}

func assign(at, v any) {
	switch at := at.(type) {
	case *string:
		*at = v.(string)
	case *bool:
		*at = v.(bool)
	case *Party:
		*at = v.(Party)
	default:
		panic(fmt.Sprintf("domain: a change cannot set a %T", at))
	}
}

// changeAll applies a change to the rows that the State holds. If NoteMass is set, it also records
// the change for the rows that are only in a store.
func changeAll[R any, P rowOf[R]](f *fold, t *Table[R, P], c change) {
	for i := range c.of {
		if c.of[i].id == "" {
			return
		}
	}
	t.each(c.of[0].rel, c.of[0].id, func(r P) {
		if r.row().Position < f.position && t.includes(&c, r) {
			for i := range c.set {
				assign(t.fields.Named(c.set[i].field).At((*R)(r)), c.set[i].to)
			}
			if c.inPlace {
				t.mark(r)
			} else {
				t.touch(f.stamp, r)
			}
		}
	})
	if f.NoteMass {
		f.Mass = append(f.Mass, t.massChange(f.stamp, &c))
	}
}

func (t *Table[R, P]) includes(c *change, r P) bool {
	for _, ref := range c.of[1:] {
		if t.keys[ref.rel](r) != ref.id {
			return false
		}
	}
	for i := range c.where {
		at := t.fields.Named(c.where[i].field).At((*R)(r))
		if !slices.ContainsFunc(c.where[i].values, func(v any) bool { return holds(at, v) }) {
			return false
		}
	}
	return true
}

// MassChange is an entry's update of all rows of one resource that refer to an object, expressed on
// their stored form. A store can apply it to rows that it does not load, in any order and in slices
// of any size. It skips rows whose position is already the entry's.
type MassChange struct {
	Resource string // as in the paths of the API, or credit-history
	Position int64  // of the entry; the changed rows get it unless InPlace is set
	InPlace  bool

	References []Reference // a row must have all of these; there is at least one
	Where      []Pieces    // and contain one text of each of these
	Splices    []Splice    // in the order of the fields within a part
}

// Reference is an id in a column of a stored row.
type Reference struct{ Column, ID string }

// Pieces matches rows in which a part contains one of the texts.
type Pieces struct {
	Part  jsonform.Part
	Texts []string
}

// Splice replaces one field of a part. Text replaces everything from From up to Until, or to the
// end of the part if Until is empty. From and Until are field names in the form `,"name":`. JSON
// escapes quotes in strings, so these texts occur in a part only as names, and no nested field has
// the same name.
type Splice struct {
	Part              jsonform.Part
	From, Until, Text string

	// Field and Value are the field's name and text, for a column that repeats the field. Value is
	// empty if the field holds no text.
	Field, Value string
}

// column returns the name of the column that stores use for a relation.
func (r relation) column() string {
	return [relations]string{byClient: "client_id", byContractor: "contractor_id", byInvoice: "invoice_id", byPeriod: "period"}[r]
}

// updatedAt is the field that shows when a row last changed.
const updatedAt = "updated_at"

func (t *Table[R, P]) massChange(by stamp, c *change) MassChange {
	m := MassChange{Resource: t.resource, Position: by.position, InPlace: c.inPlace}
	for _, ref := range c.of {
		m.References = append(m.References, Reference{ref.rel.column(), ref.id})
	}
	for i := range c.where {
		f := t.fields.Named(c.where[i].field)
		p := Pieces{Part: f.Part}
		for _, v := range c.where[i].values {
			p.Texts = append(p.Texts, t.pieceOf(f, v))
		}
		m.Where = append(m.Where, p)
	}
	set := c.set
	if t.fields.Named(updatedAt) != nil {
		set = append(slices.Clone(set), value{updatedAt, by.at})
	}
	for i := range t.fields {
		f := &t.fields[i]
		j := slices.IndexFunc(set, func(v value) bool { return v.field == f.Name })
		if j < 0 {
			continue
		}
		s := Splice{Part: f.Part, From: keyOf(f), Text: t.pieceOf(f, set[j].to), Field: f.Name}
		s.Value, _ = set[j].to.(string)
		for k := i + 1; k < len(t.fields) && s.Until == ""; k++ {
			if next := &t.fields[k]; next.Part == f.Part {
				s.Until = keyOf(next)
			}
		}
		m.Splices = append(m.Splices, s)
	}
	return m
}

func keyOf[R any](f *jsonform.Field[R]) string { return `,"` + f.Name + `":` }

// pieceOf returns a field with a value, as written in a part after another field.
func (t *Table[R, P]) pieceOf(f *jsonform.Field[R], v any) string {
	var r R
	assign(f.At(&r), v)
	return string(f.AppendTo([]byte{','}, &r))
}
