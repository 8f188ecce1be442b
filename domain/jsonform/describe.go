package jsonform

import (
	"reflect"
	"strings"
)

// FieldDescription is what documentation says about a field. Describe makes it
// from the table that writes the field.
type FieldDescription struct {
	Name     string
	Form     Form
	Part     Part
	Nullable bool
	Optional bool     // may be absent, whatever the reader's permissions; Describe does not set it
	Values   []string // of texts: all values
	Known    []string // of texts: values that occur; others may
	Doc      string
	Example  string // as JSON

	Object string             // of an object or array: the name of what is inside
	Fields []FieldDescription // of an object or array: its fields
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
		Name: f.Name, Form: f.Form, Part: f.Part, Nullable: f.Nullable,
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

// ExampleOf puts together an example of an object from those of its fields, as
// JSON.
func ExampleOf(fields []FieldDescription) string {
	members := make([]string, len(fields))
	for i := range fields {
		members[i] = `"` + fields[i].Name + `":` + fields[i].Example
	}
	return "{" + strings.Join(members, ",") + "}"
}
