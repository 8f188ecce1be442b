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

	// Shown is the SQL condition of rows that any key may see, ShownWithoutPay that
	// of rows that keys without pay:read may see; empty: all rows.
	Shown, ShownWithoutPay string

	// Removed is the table of the rows that have left the sight of keys with
	// pay:read, RemovedWithoutPay that of the other keys; empty: rows never leave.
	Removed, RemovedWithoutPay string
}

// Has reports whether the resource has fields of a part, and so its table the
// column of that part.
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
