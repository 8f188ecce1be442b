package copying

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// list is a list of the API.
type list struct {
	path       string // such as /v1/time-entries
	permission string // that a key needs to read it
	removes    bool   // it shows removed rows with include=removed
	tables     []*table
}

// root is the table with a row for each row of the list. The others are its children.
func (l *list) root() *table { return l.tables[0] }

func (l *list) name() string { return l.root().name }

// table is a table of the copy.
type table struct {
	name    string
	columns []column
	key     []int   // the columns that name a row
	fields  []field // how a row of the list becomes columns
	at      int     // its place in list.tables
}

type column struct {
	name string
	kind kind
}

// kind is what a column holds.
type kind int

const (
	text kind = iota + 1
	numeric
	integer
	boolean
	date
	moment
	document // JSON, of a form that is no column
)

// field is a field of a row, or of an object in it.
type field struct {
	name   string
	column int     // the column of a single value
	fields []field // of an object
	child  *table  // of an array of objects
}

// keyColumns are the names of the columns that name a row.
func (t *table) keyColumns() (names []string) {
	for _, at := range t.key {
		names = append(names, t.columns[at].name)
	}
	return names
}

// parentColumns are the columns of a child table that name its parent's row. They come first.
func (t *table) parentColumns() []string { return t.keyColumns()[:len(t.key)-1] }

// removedAt is a column of each list's table. The time is that at which the copy heard of it.
const removedAt = "removed_at"

// describe finds the lists in a description of the API.
func describe(openapi []byte) ([]*list, error) {
	d := &description{}
	if err := json.Unmarshal(openapi, d); err != nil {
		return nil, fmt.Errorf("read the API's description: %w", err)
	}
	paths := map[string]bool{}
	for _, p := range d.Paths {
		paths[p.name] = true
	}
	var lists []*list
	for _, p := range d.Paths {
		if !paths[p.name+".ndjson"] {
			continue // no list that comes whole
		}
		l, err := d.list(p.name, p.value, paths[p.name+"/{id}"])
		if err != nil {
			return nil, fmt.Errorf("the API's description of %s: %w", p.name, err)
		}
		lists = append(lists, l)
	}
	if len(lists) == 0 {
		return nil, errors.New("the API's description names no lists: is this the address of a Ledgerfeed API?")
	}
	return lists, nil
}

// description is the part of an OpenAPI document that lists are made from.
type description struct {
	Paths      members `json:"paths"`
	Components struct {
		Schemas map[string]*schema `json:"schemas"`
	} `json:"components"`
}

type schema struct {
	Ref        string    `json:"$ref"`
	Type       typeNames `json:"type"`
	Format     string    `json:"format"`
	Pattern    string    `json:"pattern"`
	Properties members   `json:"properties"`
	Items      *schema   `json:"items"`
	AnyOf      []*schema `json:"anyOf"`
	OneOf      []*schema `json:"oneOf"`
}

// list makes a list of the description of its path.
func (d *description) list(path string, item json.RawMessage, hasID bool) (*list, error) {
	var operations struct {
		Get struct {
			Parameters []struct {
				Name string `json:"name"`
			} `json:"parameters"`
			Security  []map[string][]string `json:"security"`
			Responses map[string]struct {
				Content map[string]struct {
					Schema *schema `json:"schema"`
				} `json:"content"`
			} `json:"responses"`
		} `json:"get"`
	}
	if err := json.Unmarshal(item, &operations); err != nil {
		return nil, err //nolint:wrapcheck // describe names the path
	}
	l := &list{path: path}
	for _, p := range operations.Get.Parameters {
		l.removes = l.removes || p.Name == "include"
	}
	for _, security := range operations.Get.Security {
		for _, permissions := range security {
			l.permission = strings.Join(permissions, " ")
		}
	}
	page := d.resolve(operations.Get.Responses["200"].Content["application/json"].Schema)
	data, err := d.property(page, "data")
	if err != nil {
		return nil, err
	}
	row := d.resolve(data.Items)
	for _, one := range row.OneOf { // a row, or a removed one
		if one = d.resolve(one); !one.Properties.has("removed") {
			row = one
		}
	}
	root := &table{name: strings.ReplaceAll(path[strings.LastIndexByte(path, '/')+1:], "-", "_")}
	l.tables = []*table{root}
	if root.fields, err = d.fields(l, root, row, ""); err != nil {
		return nil, err
	}
	// Without an address of its own, a row is named by its client, too.
	names := []string{"id"}
	if !hasID {
		names = []string{"client_id", "id"}
	}
	for _, name := range names {
		if at := slices.IndexFunc(root.columns, func(c column) bool { return c.name == name }); at >= 0 {
			root.key = append(root.key, at)
		}
	}
	if len(root.key) == 0 {
		return nil, errors.New("its rows have no id")
	}
	root.columns = append(root.columns, column{removedAt, moment})
	for _, child := range l.tables[1:] {
		child.belongTo(root)
	}
	return l, nil
}

// belongTo puts the columns before the child's own that name its parent's row and the place in it.
func (t *table) belongTo(parent *table) {
	var before []column
	for i, at := range parent.key {
		before = append(before, column{"parent_" + parent.columns[at].name, text})
		t.key = append(t.key, i)
	}
	t.key = append(t.key, len(before))
	before = append(before, column{"ordinal", integer})
	t.columns = append(before, t.columns...)
	shift(t.fields, len(before))
}

func shift(fields []field, by int) {
	for i := range fields {
		fields[i].column += by
		shift(fields[i].fields, by)
	}
}

// fields makes the columns of an object. before stands before their names.
func (d *description) fields(l *list, t *table, object *schema, before string) ([]field, error) {
	var fields []field
	for _, p := range object.Properties {
		var s *schema
		if err := json.Unmarshal(p.value, &s); err != nil {
			return nil, fmt.Errorf("field %s: %w", before+p.name, err)
		}
		s = d.resolve(s)
		f := field{name: p.name}
		var err error
		switch items := d.resolve(s.Items); {
		case len(s.Properties) > 0:
			f.fields, err = d.fields(l, t, s, before+p.name+"_")
		case len(items.Properties) > 0 && t.at == 0 && before == "":
			f.child = &table{name: t.name + "_" + p.name, at: len(l.tables)}
			l.tables = append(l.tables, f.child)
			f.child.fields, err = d.fields(l, f.child, items, "")
		default:
			f.column = len(t.columns)
			t.columns = append(t.columns, column{before + p.name, s.kind()})
		}
		if err != nil {
			return nil, err
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// resolve follows a reference, and takes the object of an object or null.
func (d *description) resolve(s *schema) *schema {
	for s != nil {
		switch {
		case s.Ref != "":
			s = d.Components.Schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
		case len(s.AnyOf) > 0:
			s = s.AnyOf[0]
		default:
			return s
		}
	}
	return &schema{}
}

func (d *description) property(object *schema, name string) (*schema, error) {
	for _, p := range object.Properties {
		if p.name == name {
			s := &schema{}
			err := json.Unmarshal(p.value, s)
			return d.resolve(s), err
		}
	}
	return nil, fmt.Errorf("%s is missing", name)
}

// kind is the kind of a single value. Amounts are texts with two decimals.
func (s *schema) kind() kind {
	switch {
	case s.Type.has("boolean"):
		return boolean
	case s.Type.has("integer"):
		return integer
	case s.Type.has("number"):
		return numeric
	case !s.Type.has("string"):
		return document
	case s.Format == "date":
		return date
	case s.Format == "date-time":
		return moment
	case strings.HasSuffix(s.Pattern, `\d+\.\d{2}$`):
		return numeric
	}
	return text
}

// typeNames are the names of JSON types, one or several.
type typeNames []string

func (t *typeNames) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		*t = make(typeNames, 1)
		return json.Unmarshal(b, &(*t)[0]) //nolint:wrapcheck // describe says what it reads
	}
	return json.Unmarshal(b, (*[]string)(t)) //nolint:wrapcheck // describe says what it reads
}

func (t *typeNames) has(name string) bool { return slices.Contains(*t, name) }

// members are the members of a JSON object, in order.
type members []member

type member struct {
	name  string
	value json.RawMessage
}

func (m members) has(name string) bool {
	return slices.ContainsFunc(m, func(one member) bool { return one.name == name })
}

func (m *members) UnmarshalJSON(b []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(b))
	if _, err := decoder.Token(); err != nil {
		return err //nolint:wrapcheck // describe says what it reads
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err //nolint:wrapcheck // describe says what it reads
		}
		one := member{name: fmt.Sprint(name)}
		if err := decoder.Decode(&one.value); err != nil {
			return err //nolint:wrapcheck // describe says what it reads
		}
		*m = append(*m, one)
	}
	return nil
}
