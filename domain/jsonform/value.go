package jsonform

import (
	"fmt"
	"strconv"
)

// A Form is a form that values of a field must have.
type Form interface {
	// Description says which values the form takes, for errors ("want …") and
	// documentation.
	Description() string
	// CanonicalText checks the text of a string, and returns it as the canonical
	// form writes it. It is called for fields whose values are *string.
	CanonicalText(text string) (canonical string, ok bool)
}

// A Value is a value in a record, of a type of its own. Field.At returns a
// pointer to it; fields that hold a *string or a *bool need none.
type Value interface {
	// AppendJSON appends the value as answers show it; null when it is absent.
	AppendJSON(b []byte) []byte
	// ScanJSON reads what AppendJSON wrote, except null: an absent value stays
	// the zero value.
	ScanJSON(s *Scanner) error
}

// An Input is a Value that can be decoded from input. Of the values without a
// type of their own, *string can be, and is given when it is not empty.
type Input interface {
	Value
	// Given reports whether the value is present.
	Given() bool
	// AppendGiven appends the value, which is present, in canonical form.
	AppendGiven(b []byte) []byte
	// DecodeJSON takes one value of any kind; ok is false when it does not have
	// the form. The error is about invalid JSON alone.
	DecodeJSON(s *Scanner, form Form) (ok bool, err error)
}

// nested is an object or array inside a record, whose faults have a path of
// their own.
type nested interface {
	given() bool
	appendGiven(b []byte) []byte
	appendJSON(b []byte) []byte
	scan(s *Scanner) error
	decode(s *Scanner, path, want string, errs *FieldErrors) error
	many() bool // whether it is an array
}

// given reports whether input gave a value.
func given(v any) bool {
	switch v := v.(type) {
	case *string:
		return *v != ""
	case Input:
		return v.Given()
	case nested:
		return v.given()
	}
	panic(noField(v))
}

// appendGiven appends a value that input gave, in canonical form.
func appendGiven(b []byte, v any) []byte {
	switch v := v.(type) {
	case *string:
		return AppendString(b, *v)
	case Input:
		return v.AppendGiven(b)
	case nested:
		return v.appendGiven(b)
	}
	panic(noField(v))
}

// appendJSON appends a value as answers show it.
func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case *string:
		return AppendText(b, *v)
	case *bool:
		return strconv.AppendBool(b, *v)
	case Value:
		return v.AppendJSON(b)
	case nested:
		return v.appendJSON(b)
	}
	panic(noField(v))
}

// scan reads what appendJSON wrote.
func scan(s *Scanner, v any) (err error) {
	switch v := v.(type) {
	case *string:
		if !s.Literal("null") {
			*v, err = s.Text()
		}
		return err
	case *bool:
		if !s.Literal("null") {
			err = scanBool(s, v)
		}
		return err
	case Value:
		if !s.Literal("null") {
			err = v.ScanJSON(s)
		}
		return err
	case nested:
		return v.scan(s)
	}
	panic(noField(v))
}

func scanBool(s *Scanner, v *bool) error {
	*v = s.Literal("true")
	if !*v && !s.Literal("false") {
		return s.Fail("expected true or false")
	}
	return nil
}

// noField says that a table points to something that is no field. Define
// refuses such tables, so the panics above are for tables made without it.
func noField(v any) string { return fmt.Sprintf("jsonform: a field cannot hold a %T", v) }
