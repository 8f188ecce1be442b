package domain

import (
	"strconv"
	"strings"
)

// Part is a fragment of a resource: the fields that one permission opens.
// A row is stored in its parts, so that what a key may not see never leaves
// the database (design.md, "Figures").
type Part int

// The parts of a row, in the order in which they are shown.
const (
	Base   Part = iota // opened by the endpoint's own permission
	Pay                // opened by pay:read
	Margin             // opened by margin:read
)

// Field is one field of an entry or of a resource. It is the only definition
// of that field: decoding, canonical form, answers, reading back and the
// documentation all come from it.
type Field[R any] struct {
	Name     string
	Form     Form
	Part     Part
	Required bool     // of an entry's field: must be given
	Default  string   // of an entry's field: what an absent one means, in words
	Values   []string // of FormEnum: no others are taken
	Known    []string // of FormText: values that occur, for documentation
	Nullable bool     // of a resource's field: may be null
	Doc      string
	Example  string // as JSON

	// at points to the value in a record; see appendValue for the types.
	at func(*R) any
	// derive writes a value that is made from others and never read back.
	derive func([]byte, *R) []byte

	key string // `"name":`, made once by table
}

// table completes the definitions of a record's fields.
func table[R any](fields []Field[R]) []Field[R] {
	for i := range fields {
		fields[i].key = `"` + fields[i].Name + `":`
	}
	return fields
}

// composite is a nested object or array: its own fields are defined by a
// table of their own.
type composite interface {
	given() bool
	decode(s *scanner, path string, errs *FormErrors) error
	appendGiven(b []byte) []byte
	appendAll(b []byte) []byte
	scanStored(s *scanner) error
}

// object is an optional nested object.
type object[R any] struct {
	ptr    **R
	fields []Field[R]
}

func (o object[R]) given() bool { return *o.ptr != nil }

func (o object[R]) decode(s *scanner, path string, errs *FormErrors) error {
	*o.ptr = new(R)
	return decodeFields(s, o.fields, *o.ptr, path, errs)
}

func (o object[R]) appendGiven(b []byte) []byte { return appendGiven(b, o.fields, *o.ptr) }

func (o object[R]) appendAll(b []byte) []byte {
	if *o.ptr == nil {
		return append(b, "null"...)
	}
	return append(appendPart(b, o.fields, *o.ptr, Base), '}')
}

func (o object[R]) scanStored(s *scanner) error {
	if s.literal("null") {
		return nil
	}
	*o.ptr = new(R)
	return scanObject(s, o.fields, *o.ptr)
}

// array is a nested array of objects; nil is absent, empty is given empty.
type array[R any] struct {
	ptr    *[]R
	fields []Field[R]
}

func (a array[R]) given() bool { return *a.ptr != nil }

func (a array[R]) decode(s *scanner, path string, errs *FormErrors) error {
	*a.ptr = []R{}
	return s.elements(func(i int) error {
		at := path + "[" + strconv.Itoa(i) + "]"
		if s.peek() != '{' {
			errs.add(at, faultForm, FormObject.words())
			_, err := s.skip()
			return err
		}
		*a.ptr = append(*a.ptr, *new(R))
		return decodeFields(s, a.fields, &(*a.ptr)[len(*a.ptr)-1], at, errs)
	})
}

func (a array[R]) appendGiven(b []byte) []byte {
	return a.each(b, func(b []byte, r *R) []byte { return appendGiven(b, a.fields, r) })
}

func (a array[R]) appendAll(b []byte) []byte {
	return a.each(b, func(b []byte, r *R) []byte { return append(appendPart(b, a.fields, r, Base), '}') })
}

func (a array[R]) each(b []byte, write func([]byte, *R) []byte) []byte {
	b = append(b, '[')
	for i := range *a.ptr {
		if i > 0 {
			b = append(b, ',')
		}
		b = write(b, &(*a.ptr)[i])
	}
	return append(b, ']')
}

func (a array[R]) scanStored(s *scanner) error {
	return s.elements(func(int) error {
		*a.ptr = append(*a.ptr, *new(R))
		return scanObject(s, a.fields, &(*a.ptr)[len(*a.ptr)-1])
	})
}

// decodeFields takes an object of an entry strictly: every fault of form goes
// into errs, and only broken JSON ends it early.
func decodeFields[R any](s *scanner, fields []Field[R], r *R, path string, errs *FormErrors) error {
	var seen uint64
	next := 0 // canonical input comes in order, so the next field is nearly always the one
	err := s.members(func(name string) error {
		i := next
		if i >= len(fields) || fields[i].Name != name {
			i = indexOf(fields, name)
		}
		if i == len(fields) {
			errs.add(join(path, name), faultUnknown, "one of "+names(fields))
			_, err := s.skip()
			return err
		}
		if seen&(1<<i) != 0 {
			errs.add(join(path, name), faultTwice, "")
			_, err := s.skip()
			return err
		}
		seen |= 1 << i
		next = i + 1
		return decodeValue(s, &fields[i], fields[i].at(r), path, errs)
	})
	if err != nil {
		return err
	}
	for i := range fields {
		if fields[i].Required && seen&(1<<i) == 0 {
			errs.add(join(path, fields[i].Name), faultMissing, fields[i].want())
		}
	}
	return nil
}

// indexOf finds a field by its name; len(fields) when there is none.
func indexOf[R any](fields []Field[R], name string) int {
	for i := range fields {
		if fields[i].Name == name {
			return i
		}
	}
	return len(fields)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func names[R any](fields []Field[R]) string {
	list := make([]string, len(fields))
	for i := range fields {
		list[i] = fields[i].Name
	}
	return strings.Join(list, ", ")
}

func (f *Field[R]) want() string {
	if f.Form == FormEnum {
		return "one of " + strings.Join(f.Values, ", ")
	}
	return f.Form.words()
}

// appendGiven appends an object in canonical form: the fields in the order of
// the table, only those given (docs/contract/log.md, "Stored form").
func appendGiven[R any](b []byte, fields []Field[R], r *R) []byte {
	b = append(b, '{')
	first := true
	for i := range fields {
		v := fields[i].at(r)
		if !given(v) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(b, fields[i].key...)
		switch v := v.(type) {
		case composite:
			b = v.appendGiven(b)
		case *OptMoney:
			b = v.appendGiven(b)
		default:
			b = appendValue(b, v)
		}
	}
	return append(b, '}')
}

// appendPart appends one part of a resource. The base opens the object and no
// part closes it, so that a row is its parts one after the other and a brace.
func appendPart[R any](b []byte, fields []Field[R], r *R, part Part) []byte {
	separator := byte(',')
	if part == Base {
		separator = '{'
	}
	for i := range fields {
		f := &fields[i]
		if f.Part != part {
			continue
		}
		b = append(b, separator)
		separator = ','
		b = append(b, f.key...)
		if f.derive != nil {
			b = f.derive(b, r)
			continue
		}
		switch v := f.at(r).(type) {
		case composite:
			b = v.appendAll(b)
		default:
			b = appendValue(b, v)
		}
	}
	return b
}
