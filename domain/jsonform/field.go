package jsonform

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
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
	Required bool     // Decode: must be present
	Values   []string // Decode, Describe: the only texts that are accepted

	// At points to the value in a record: a *string, a *bool, a Value, or what
	// ObjectOf and ArrayOf return.
	At func(*R) any
	// Derive replaces At: it appends a value computed from other fields. ReadPart skips it.
	Derive func(b []byte, r *R) []byte

	// For documentation.
	Nullable bool     // may be null
	Known    []string // for texts: known values; others may occur
	Doc      string
	Example  string // as JSON; if it is empty, Describe makes one for objects and arrays

	key string // `"name":`
}

// Fields is the table of a record's fields, in the order in which they are
// written. Define makes one.
type Fields[R any] []Field[R]

// maxFields is how many fields Decode can keep track of.
const maxFields = 64

// Define joins lists of fields into a table. It panics if At of a field points to an unsupported
// type, or if there are more than 64 fields.
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

// named returns the index of a field, or len(fs) if there is none with this name.
func (fs Fields[R]) named(name string) int {
	for i := range fs {
		if fs[i].Name == name {
			return i
		}
	}
	return len(fs)
}

// Named returns a field, or nil if there is none with this name.
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

// OptInt is a whole number, not negative, that may be absent.
type OptInt struct {
	Int int64
	Set bool
}

// Given reports whether the number is present.
func (o *OptInt) Given() bool { return o.Set }

// AppendGiven appends the number.
func (o *OptInt) AppendGiven(b []byte) []byte { return strconv.AppendInt(b, o.Int, 10) }

// AppendJSON appends the number, or null.
func (o *OptInt) AppendJSON(b []byte) []byte {
	if !o.Set {
		return append(b, "null"...)
	}
	return o.AppendGiven(b)
}

// DecodeJSON takes a whole number, not negative, in any notation (3, 3.0, 3e0).
func (o *OptInt) DecodeJSON(s *Scanner, _ Form) (bool, error) {
	text, ok, err := s.NumberOrSkip()
	if !ok {
		return false, err
	}
	n, ok := ParseNumber(text, 0, maxInt64Digits)
	if !ok || n < 0 {
		return false, nil
	}
	*o = OptInt{n, true}
	return true, nil
}

// ScanJSON reads a whole number.
func (o *OptInt) ScanJSON(s *Scanner) error {
	o.Set = true
	return s.ScanNumber(0, &o.Int)
}

// OptBool is a boolean that input may omit. The reader of the record chooses the default, with Or.
// Rows show an absent one as false.
type OptBool struct {
	Bool bool
	Set  bool
}

// Or returns the value, or def when it is absent.
func (o OptBool) Or(def bool) bool {
	if o.Set {
		return o.Bool
	}
	return def
}

// Given reports whether the boolean is present.
func (o *OptBool) Given() bool { return o.Set }

// AppendGiven appends the boolean.
func (o *OptBool) AppendGiven(b []byte) []byte { return strconv.AppendBool(b, o.Bool) }

// AppendJSON appends the boolean.
func (o *OptBool) AppendJSON(b []byte) []byte { return o.AppendGiven(b) }

// DecodeJSON takes true or false.
func (o *OptBool) DecodeJSON(s *Scanner, _ Form) (bool, error) {
	c := s.peek()
	text, err := s.skip()
	if c != 't' && c != 'f' {
		return false, err
	}
	*o = OptBool{Bool: text == "true", Set: true}
	return true, err
}

// ScanJSON reads true or false.
func (o *OptBool) ScanJSON(s *Scanner) error {
	o.Set = true
	return scanBool(s, &o.Bool)
}

// Raw is an object kept as text, for input whose form depends on another field.
type Raw struct {
	Text string
	Set  bool
}

// Given reports whether the object is present.
func (r *Raw) Given() bool { return r.Set }

// AppendGiven appends the text as it came.
func (r *Raw) AppendGiven(b []byte) []byte { return append(b, r.Text...) }

// AppendJSON appends the text as it came, or null.
func (r *Raw) AppendJSON(b []byte) []byte {
	if !r.Set {
		return append(b, "null"...)
	}
	return r.AppendGiven(b)
}

// DecodeJSON takes any object.
func (r *Raw) DecodeJSON(s *Scanner, _ Form) (bool, error) {
	isObject := s.peek() == '{'
	text, err := s.skip()
	if isObject {
		*r = Raw{Text: text, Set: true}
	}
	return isObject, err
}

// ScanJSON reads any value.
func (r *Raw) ScanJSON(s *Scanner) (err error) {
	r.Text, err = s.skip()
	r.Set = true
	return err
}

// FieldDescription describes a field for documentation. Describe makes it from the table that
// writes the field.
type FieldDescription struct {
	Name     string
	Form     Form
	Part     Part
	Nullable bool
	Required bool     // input must have it
	Optional bool     // may be absent, whatever the reader's permissions; Describe does not set it
	Values   []string // for texts: all values
	Known    []string // for texts: known values; others may occur
	Doc      string
	Example  string // as JSON

	Object string             // objects and arrays: the name of the object inside
	Fields []FieldDescription // objects and arrays: its fields
}

// A Described value is an object or array that documents what it holds.
type Described interface {
	// DescribeJSON returns the name of the object inside and its fields.
	DescribeJSON() (object string, fields []FieldDescription)
}

// DescribeJSON names the object after its Go type.
func (o object[R]) DescribeJSON() (string, []FieldDescription) {
	return reflect.TypeFor[R]().Name(), o.fields.Describe()
}

// DescribeJSON names the elements after their Go type.
func (a array[R]) DescribeJSON() (string, []FieldDescription) {
	return reflect.TypeFor[R]().Name(), a.fields.Describe()
}

// Describe lists the fields for documentation, in their order.
func (fs Fields[R]) Describe() []FieldDescription {
	list := make([]FieldDescription, len(fs))
	for i := range fs {
		list[i] = fs[i].describe()
	}
	return list
}

func (f *Field[R]) describe() FieldDescription {
	d := FieldDescription{
		Name: f.Name, Form: f.Form, Part: f.Part, Nullable: f.Nullable, Required: f.Required,
		Values: f.Values, Known: f.Known, Doc: f.Doc, Example: f.Example,
	}
	if f.At == nil {
		return d
	}
	v := f.At(new(R))
	if holds, ok := v.(Described); ok {
		d.Object, d.Fields = holds.DescribeJSON()
	}
	if d.Example != "" {
		return d
	}
	d.Example = "null"
	if len(d.Fields) > 0 {
		d.Example = ExampleOf(d.Fields)
		if n, ok := v.(nested); ok && n.many() {
			d.Example = "[" + d.Example + "]"
		}
	}
	return d
}

// ExampleOf returns an example of an object as JSON, made from the examples of its fields.
func ExampleOf(fields []FieldDescription) string {
	members := make([]string, len(fields))
	for i := range fields {
		members[i] = `"` + fields[i].Name + `":` + fields[i].Example
	}
	return "{" + strings.Join(members, ",") + "}"
}
