package answer

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// Columns are the columns of a resource in CSV, in the order of its fields. A field that is an
// object has one column for each of its own fields, with a name such as client.id. Columns belongs
// to one list, and only the list's goroutine uses it.
type Columns struct {
	root  node
	names []string
	cells [][]byte // the JSON values of the row that is being written; empty: none
}

// node is an object: the row itself, or the value of a field.
type node struct {
	members []member
	from    int // its first column
	to      int // one after its last column
}

// member is a field of an object.
type member struct {
	name   string
	column int   // of a value or an array
	node   *node // nil: the field is not an object
}

// NewColumns makes the columns of the fields whose parts are shown.
func NewColumns(fields []jsonform.FieldDescription, shown func(jsonform.Part) bool) *Columns {
	c := &Columns{}
	c.root = *c.add("", fields, shown)
	c.cells = make([][]byte, len(c.names))
	return c
}

// AndRemoved adds the column that is true for rows that have left the list, and empty for
// all others.
func (c *Columns) AndRemoved() *Columns {
	c.root.members = append(c.root.members, member{name: "removed", column: len(c.names)})
	c.names = append(c.names, "removed")
	c.root.to = len(c.names)
	c.cells = make([][]byte, len(c.names))
	return c
}

// Names returns the names of the columns.
func (c *Columns) Names() []string { return c.names }

func (c *Columns) add(prefix string, fields []jsonform.FieldDescription, shown func(jsonform.Part) bool) *node {
	n := &node{from: len(c.names)}
	for i := range fields {
		f := &fields[i]
		if !shown(f.Part) {
			continue
		}
		m := member{name: f.Name, column: len(c.names)}
		if f.Form == domain.FormObject {
			m.node = c.add(prefix+f.Name+".", f.Fields, func(jsonform.Part) bool { return true })
		} else {
			c.names = append(c.names, prefix+f.Name)
		}
		n.members = append(n.members, m)
	}
	n.to = len(c.names)
	return n
}

// find returns the member with a name, and its index. next is its index if the row has its members
// in the order of the fields.
func (n *node) find(name []byte, next int) (m *member, at int) {
	for i := range n.members {
		at = (next + i) % len(n.members)
		if string(name) == n.members[at].name {
			return &n.members[at], at
		}
	}
	return nil, next
}

// AppendHeader appends the header row.
func (c *Columns) AppendHeader(b []byte) []byte {
	for i, name := range c.names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, name...) // letters, underscores and dots, which need no quotes
	}
	return append(b, "\r\n"...)
}

var errRow = errors.New("a row of a list is not the JSON that its fields give")

// AppendRow appends a row, given as the JSON object that a page would have for it.
func (c *Columns) AppendRow(b, row []byte) ([]byte, error) {
	clear(c.cells)
	rest, err := c.object(&c.root, row)
	if err == nil && len(rest) > 0 {
		err = errForm
	}
	if err != nil {
		return b, fmt.Errorf("%w: %w", errRow, err)
	}
	for i := range c.cells {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendCell(b, c.cells[i]); err != nil {
			return b, fmt.Errorf("%w: column %s: %w", errRow, c.names[i], err)
		}
	}
	return append(b, "\r\n"...), nil
}

// object finds the cells of an object and returns what follows it. It skips members that are not
// fields.
func (c *Columns) object(n *node, json []byte) (rest []byte, err error) {
	if len(json) == 0 || json[0] != '{' {
		return nil, errForm
	}
	if json = json[1:]; len(json) > 0 && json[0] == '}' {
		return json[1:], nil
	}
	for next := 0; ; next++ {
		name, after, err := cutString(json)
		if err != nil || len(after) == 0 || after[0] != ':' {
			return nil, errForm
		}
		m, at := n.find(name[1:len(name)-1], next)
		next = at
		if json, err = c.value(m, after[1:]); err != nil {
			return nil, err
		}
		switch {
		case len(json) > 0 && json[0] == ',':
			json = json[1:]
		case len(json) > 0 && json[0] == '}':
			return json[1:], nil
		default:
			return nil, errForm
		}
	}
}

// value finds the cells of a member's value and returns what follows it. It skips the value if m is
// nil.
func (c *Columns) value(m *member, json []byte) (rest []byte, err error) {
	if m != nil && m.node != nil && len(json) > 0 && json[0] == '{' {
		return c.object(m.node, json)
	}
	value, rest, err := cutValue(json)
	if err != nil {
		return nil, err
	}
	if m != nil && m.node == nil && string(value) != "null" {
		c.cells[m.column] = value
	}
	return rest, nil
}

// appendCell appends a cell (RFC 4180): strings as plain text, all other values as JSON, and
// nothing for null.
func appendCell(b, value []byte) ([]byte, error) {
	if len(value) == 0 {
		return b, nil
	}
	begin := len(b)
	if value[0] != '"' {
		b = append(b, value...)
	} else {
		var err error
		if b, err = appendText(b, value); err != nil {
			return b, err
		}
	}
	return quote(b, begin), nil
}

func needsQuotes(text []byte) bool {
	if text[0] == ' ' || text[len(text)-1] == ' ' {
		return true
	}
	for _, c := range text {
		if c == ',' || c == '"' || c == '\r' || c == '\n' {
			return true
		}
	}
	return jsonform.EndsLine(text)
}

// AppendCell appends a text as a cell of a whole list (RFC 4180).
func AppendCell(b []byte, text string) []byte {
	begin := len(b)
	return quote(append(b, text...), begin)
}

// quote puts the cell that begins at begin into quotation marks, if it needs them.
func quote(b []byte, begin int) []byte {
	text := b[begin:]
	if len(text) == 0 || !needsQuotes(text) {
		return b
	}
	marks := bytes.Count(text, []byte{'"'})
	end := len(b)
	b = append(b, make([]byte, marks+2)...)
	at := len(b) - 1
	b[at] = '"'
	for i := end - 1; i >= begin; i-- { // backwards, in place
		at--
		b[at] = b[i]
		if b[i] == '"' {
			at--
			b[at] = '"'
		}
	}
	b[begin] = '"'
	return b
}
