package jsonform

import (
	"fmt"
	"slices"
	"strings"
)

// A Part groups the fields of a record that are written together. Part 0 opens
// the object; the others follow it.
type Part int

// Field is one field of a record of type R.
type Field[R any] struct {
	Name     string
	Form     Form
	Part     Part
	Required bool     // Decode: must be given
	Values   []string // Decode, Describe: of texts, no others are taken

	// At points to the value in a record: a *string, a *bool, a Value, or what
	// ObjectOf and ArrayOf return.
	At func(*R) any
	// Derive, in place of At, appends a value that is made from other fields.
	// ReadPart skips it.
	Derive func(b []byte, r *R) []byte

	// For documentation.
	Nullable bool     // may be null
	Known    []string // of texts: values that occur; others may
	Doc      string
	Example  string // as JSON; objects and arrays have one of their own

	key string // `"name":`
}

// Fields is the table of a record's fields, in the order in which they are
// written. Define makes one.
type Fields[R any] []Field[R]

// maxFields is how many fields Decode can keep count of.
const maxFields = 64

// Define joins lists of fields into a table. It panics when a field's At points
// to something that is no field, or when there are more than 64 fields.
func Define[R any](lists ...[]Field[R]) Fields[R] {
	fields := slices.Concat(lists...)
	if len(fields) > maxFields {
		panic(fmt.Sprintf("jsonform: %d fields in one record, at most %d", len(fields), maxFields))
	}
	for i := range fields {
		f := &fields[i]
		f.key = `"` + f.Name + `":`
		if f.Derive != nil {
			continue
		}
		switch v := f.At(new(R)).(type) {
		case *string, *bool, Value, nested:
		default:
			panic(noField(v))
		}
	}
	return fields
}

// named returns the index of a field; len(fs) when there is none.
func (fs Fields[R]) named(name string) int {
	for i := range fs {
		if fs[i].Name == name {
			return i
		}
	}
	return len(fs)
}

// Named returns a field; nil when there is none of that name.
func (fs Fields[R]) Named(name string) *Field[R] {
	if i := fs.named(name); i < len(fs) {
		return &fs[i]
	}
	return nil
}

func (fs Fields[R]) names() string {
	list := make([]string, len(fs))
	for i := range fs {
		list[i] = fs[i].Name
	}
	return strings.Join(list, ", ")
}

// HasPart reports whether any field is in a part.
func (fs Fields[R]) HasPart(part Part) bool {
	return slices.ContainsFunc(fs, func(f Field[R]) bool { return f.Part == part })
}

func (f *Field[R]) want() string {
	if f.Values != nil {
		return "one of " + strings.Join(f.Values, ", ")
	}
	return f.Form.Description()
}
