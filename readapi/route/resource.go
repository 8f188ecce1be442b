package route

import (
	"strings"
	"unicode"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// Resource is a kind of object that the API shows.
type Resource struct {
	Name   string // such as TimeEntry
	Table  string // the read table; empty: it is not read from one
	Fields []jsonform.FieldDescription

	// Shown is the SQL condition for the rows that keys may see. ShownWithoutPay is a further
	// condition for keys without pay:read. Empty: all rows.
	Shown, ShownWithoutPay string

	// Removed is the table of the rows that have left the sight of keys with pay:read.
	// RemovedWithoutPay is the table for the other keys. Empty: rows never leave.
	Removed, RemovedWithoutPay string
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
