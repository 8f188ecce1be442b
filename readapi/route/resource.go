package route

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// Resource is a kind of object that the API shows.
type Resource struct {
	Name   string // such as TimeEntry
	Schema string // its name in the OpenAPI document; empty: Name
	Table  string // the read table; empty: it is not read from one
	Fields []jsonform.FieldDescription

	// Base is the SQL of the fields for the endpoint's own permission. Empty: the column base.
	Base string

	// LastDay is the column of the last day that a row is of; the first one is in the column day.
	// Empty: rows are of one day.
	LastDay string

	// Total says how rows are added up; nil: the resource is not of totals.
	Total *Total

	// Shown is the SQL condition for the rows that keys may see. ShownWithoutPay is a further
	// condition for keys without pay:read. Empty: all rows.
	Shown, ShownWithoutPay string

	// Removed is the table of the rows that have left the sight of keys with pay:read.
	// RemovedWithoutPay is the table for the other keys. Empty: rows never leave.
	Removed, RemovedWithoutPay string
}

// Total says how rows are added up. All names are those of fields and, unless a group of Groups is
// named, of columns.
type Total struct {
	Groups    []string // what the caller may group by
	Separated []string // what always separates rows, after the currency
	Sums      []string
}

// Has reports whether the resource has fields of a part. If so, its table has the column of that
// part.
func (r *Resource) Has(part jsonform.Part) bool {
	for i := range r.Fields {
		if r.Fields[i].Part == part {
			return true
		}
	}
	return false
}

// Field returns the description of the field with a name.
func (r *Resource) Field(name string) *jsonform.FieldDescription {
	return &r.Fields[slices.IndexFunc(r.Fields, func(f jsonform.FieldDescription) bool { return f.Name == name })]
}

// SchemaName is the resource's name in the OpenAPI document.
func (r *Resource) SchemaName() string { return cmp.Or(r.Schema, r.Name) }

// Label is the resource's name in a sentence: TimeEntry is "time entry".
func (r *Resource) Label() string {
	var b strings.Builder
	for i, c := range r.Name {
		if unicode.IsUpper(c) && i > 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
