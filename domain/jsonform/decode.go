package jsonform

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// wantObject describes the form of objects in error messages.
const wantObject = "an object"

// IsObject reports whether text begins like a JSON object.
func IsObject(text string) bool {
	s := &Scanner{text: text}
	return s.peek() == '{'
}

// Decode strictly decodes an object into a record. It adds a fault to errs, with the field's path,
// for each unknown or repeated name, missing required field, and value in a wrong form (including
// null). path is the path of the object itself and may be empty. The error is for invalid JSON,
// which ends decoding early.
func (fs Fields[R]) Decode(text, path string, r *R, errs *FieldErrors) error {
	s := &Scanner{text: text}
	if err := fs.decodeObject(s, path, wantObject, r, errs); err != nil {
		return err
	}
	return s.end()
}

func (fs Fields[R]) decodeObject(s *Scanner, path, want string, r *R, errs *FieldErrors) error {
	if s.peek() != '{' {
		errs.WrongForm(path, want)
		_, err := s.skip()
		return err
	}
	var seen uint64
	next := 0 // canonical input is in order, so the next field is nearly always the right one
	err := s.members(func(name string) error {
		i := next
		if i >= len(fs) || fs[i].Name != name {
			i = fs.named(name)
		}
		if i == len(fs) {
			errs.Unknown(join(path, name), "one of "+fs.names())
			_, err := s.skip()
			return err
		}
		if seen&(1<<i) != 0 {
			errs.twice(join(path, name))
			_, err := s.skip()
			return err
		}
		seen |= 1 << i
		next = i + 1
		return fs[i].decode(s, path, r, errs)
	})
	if err != nil {
		return err
	}
	for i := range fs {
		if fs[i].Required && seen&(1<<i) == 0 {
			errs.Missing(join(path, fs[i].Name), fs[i].want())
		}
	}
	return nil
}

// decode decodes the value of a field.
func (f *Field[R]) decode(s *Scanner, path string, r *R, errs *FieldErrors) error {
	var (
		ok  bool
		err error
	)
	switch v := f.At(r).(type) {
	case *string:
		ok, err = f.decodeText(s, v)
	case Input:
		ok, err = v.DecodeJSON(s, f.Form)
	case nested:
		return v.decode(s, join(path, f.Name), f.want(), errs)
	default:
		panic(noField(v))
	}
	if err == nil && !ok {
		errs.WrongForm(join(path, f.Name), f.want())
	}
	return err
}

func (f *Field[R]) decodeText(s *Scanner, v *string) (ok bool, err error) {
	text, ok, err := s.TextOrSkip()
	if !ok {
		return false, err
	}
	if f.Values != nil {
		ok = slices.Contains(f.Values, text)
	} else {
		text, ok = f.Form.CanonicalText(text)
	}
	if ok {
		*v = text
	}
	return ok, nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// Member is one member of a JSON object.
type Member struct {
	Name string
	JSON string // the value, as it was written
}

// Members returns the members of a JSON object, in order.
func Members(object string) ([]Member, error) {
	var list []Member
	s := &Scanner{text: object}
	err := s.members(func(name string) error {
		value, err := s.skip()
		list = append(list, Member{name, value})
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, s.end()
}

// ObjectOf returns the value of a field that holds an optional object; nil means absent.
func ObjectOf[R any](at **R, fields Fields[R]) any { return object[R]{at, fields} }

// ArrayOf returns the value of a field that holds an array of objects; nil means absent and is
// shown as empty.
func ArrayOf[R any](at *[]R, fields Fields[R]) any { return array[R]{at, fields} }

type object[R any] struct {
	at     **R
	fields Fields[R]
}

func (o object[R]) many() bool { return false }

func (o object[R]) given() bool { return *o.at != nil }

func (o object[R]) decode(s *Scanner, path, want string, errs *FieldErrors) error {
	*o.at = new(R)
	return o.fields.decodeObject(s, path, want, *o.at, errs)
}

func (o object[R]) appendGiven(b []byte) []byte { return o.fields.AppendGiven(b, *o.at) }

func (o object[R]) appendJSON(b []byte) []byte {
	if *o.at == nil {
		return append(b, "null"...)
	}
	return o.fields.appendObject(b, *o.at)
}

func (o object[R]) scan(s *Scanner) error {
	if s.Literal("null") {
		return nil
	}
	*o.at = new(R)
	return o.fields.scanObject(s, *o.at)
}

type array[R any] struct {
	at     *[]R
	fields Fields[R]
}

func (a array[R]) many() bool { return true }

func (a array[R]) given() bool { return *a.at != nil }

func (a array[R]) decode(s *Scanner, path, want string, errs *FieldErrors) error {
	if s.peek() != '[' {
		errs.WrongForm(path, want)
		_, err := s.skip()
		return err
	}
	*a.at = []R{}
	return s.elements(func(i int) error {
		*a.at = append(*a.at, *new(R))
		return a.fields.decodeObject(s, path+"["+strconv.Itoa(i)+"]", wantObject, &(*a.at)[i], errs)
	})
}

func (a array[R]) appendGiven(b []byte) []byte { return a.each(b, a.fields.AppendGiven) }

func (a array[R]) appendJSON(b []byte) []byte { return a.each(b, a.fields.appendObject) }

func (a array[R]) each(b []byte, write func([]byte, *R) []byte) []byte {
	b = append(b, '[')
	for i := range *a.at {
		if i > 0 {
			b = append(b, ',')
		}
		b = write(b, &(*a.at)[i])
	}
	return append(b, ']')
}

func (a array[R]) scan(s *Scanner) error {
	return s.elements(func(i int) error {
		*a.at = append(*a.at, *new(R))
		return a.fields.scanObject(s, &(*a.at)[i])
	})
}

// A FieldError says which field of a decoded object is wrong, and which form it must have.
type FieldError struct {
	Field string // its path: "data.contacts[2].email"
	Fault string // "is missing", "is given twice", "is not known", "has the wrong form"
	Want  string // the expected form; empty if Fault says everything
}

// Error names the field, the fault and the expected form.
func (e FieldError) Error() string {
	field := e.Field
	if cut := []rune(field); len(cut) > maxFieldShown {
		field = string(cut[:maxFieldShown]) + "…"
	}
	if e.Want == "" {
		return field + " " + e.Fault
	}
	return field + " " + e.Fault + ": want " + e.Want
}

// FieldErrors lists all the faults of one object in the order of its text. An object's missing
// fields follow its other faults.
type FieldErrors []FieldError

// An object may have thousands of faults and very long names. Error messages are cut to what a
// person can read.
const (
	maxFaultsShown = 20
	maxFieldShown  = 200 // characters
)

// Error joins the faults; if there are very many, it shows only the first.
func (e FieldErrors) Error() string {
	shown := e[:min(len(e), maxFaultsShown)]
	parts := make([]string, len(shown), len(shown)+1)
	for i, f := range shown {
		parts[i] = f.Error()
	}
	switch more := len(e) - len(shown); more {
	case 0:
	case 1:
		parts = append(parts, "and 1 more fault")
	default:
		parts = append(parts, fmt.Sprintf("and %d more faults", more))
	}
	return strings.Join(parts, "; ")
}

// Unknown adds an unknown field or an unknown value of a field; want lists the known ones.
func (e *FieldErrors) Unknown(field, want string) { e.add(field, "is not known", want) }

// WrongForm adds a field whose value does not have the form want.
func (e *FieldErrors) WrongForm(field, want string) { e.add(field, "has the wrong form", want) }

// Missing adds a required field that is not there.
func (e *FieldErrors) Missing(field, want string) { e.add(field, "is missing", want) }

func (e *FieldErrors) twice(field string) { e.add(field, "is given twice", "") }

func (e *FieldErrors) add(field, fault, want string) {
	*e = append(*e, FieldError{Field: field, Fault: fault, Want: want})
}
