package copying

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/readapi/client"
)

// cell is the text of a value; nil is NULL.
type cell []byte

// batch is a number of rows of a list, as the rows of its tables.
type batch struct {
	list    *list
	tables  [][]cell // of each table, row after row
	rows    int      // of the list
	size    int      // in bytes
	removed []cell   // the keys of rows that are no longer there, one after the other

	unknown map[string]bool // fields that have no column
	arrays  []array         // of the row that is being read
}

// array is an array of objects in a row.
type array struct {
	of    *table
	value []byte
}

func newBatch(l *list) *batch {
	return &batch{list: l, tables: make([][]cell, len(l.tables)), unknown: map[string]bool{}}
}

// add adds a row as the API wrote it. The batch keeps parts of it.
func (b *batch) add(row []byte) error {
	root := b.list.root()
	at := len(b.tables[0])
	b.arrays = b.arrays[:0]
	b.tables[0] = append(b.tables[0], make([]cell, len(root.columns))...)
	gone, err := b.read(root, root.fields, row, at)
	if err != nil {
		return err
	}
	cells := b.tables[0][at:]
	for _, k := range root.key {
		if cells[k] == nil {
			return fmt.Errorf("a row of %s has no %s", b.list.path, root.columns[k].name)
		}
	}
	if gone {
		for _, k := range root.key {
			b.removed = append(b.removed, cells[k])
		}
		b.tables[0] = b.tables[0][:at]
		return nil
	}
	for _, a := range b.arrays {
		if err := b.readChildren(a.of, a.value, at); err != nil {
			return err
		}
	}
	b.rows++
	b.size += len(row)
	return nil
}

// keys are the keys of the batch's rows, one after the other.
func (b *batch) keys() (keys []cell) {
	root := b.list.root()
	for cells := range slices.Chunk(b.tables[0], len(root.columns)) {
		for _, at := range root.key {
			keys = append(keys, cells[at])
		}
	}
	return keys
}

// inBatches reads a whole list in batches.
func inBatches(ctx context.Context, l *list, whole *client.Whole[client.RawRow], each func(*batch) error) error {
	b := newBatch(l)
	for row, err := range whole.Rows(ctx) {
		if err != nil {
			return err
		}
		if err := b.add(*row); err != nil {
			return err
		}
		if b.rows+len(b.removed) >= batchRows || b.size >= batchBytes {
			if err := each(b); err != nil {
				return err
			}
			b = newBatch(l)
		}
	}
	return each(b)
}

// read reads an object into the row of a table that begins at a place of its cells. gone says that
// it is a removed row.
func (b *batch) read(t *table, fields []field, object []byte, at int) (gone bool, err error) {
	next := 0 // rows have their fields in order
	for s := (scanner{b: object}); ; {
		name, value, ok := s.member()
		if !ok {
			return gone, nil
		}
		if next = find(fields, next, name); next == len(fields) {
			next = 0
			if t.at == 0 && string(name) == "removed" {
				gone = gone || string(value) == "true"
			} else {
				b.unknown[string(name)] = true
			}
			continue
		}
		f := &fields[next]
		next++
		switch {
		case string(value) == "null":
		case f.child != nil:
			b.arrays = append(b.arrays, array{f.child, value})
		case f.fields != nil:
			if _, err := b.read(t, f.fields, value, at); err != nil {
				return gone, err
			}
		default:
			if b.tables[t.at][at+f.column], err = textOf(t.columns[f.column].kind, value); err != nil {
				return gone, fmt.Errorf("field %s of %s: %w", name, b.list.path, err)
			}
		}
	}
}

// find returns the place of the field with a name, which is most likely the next one.
func find(fields []field, next int, name []byte) int {
	for i := range fields {
		if at := (next + i) % len(fields); fields[at].name == string(name) {
			return at
		}
	}
	return len(fields)
}

// readChildren reads an array of the row of the list that begins at a place.
func (b *batch) readChildren(t *table, array []byte, parent int) error {
	key := b.list.root().key
	for s, ordinal := (scanner{b: array}), 1; ; ordinal++ {
		object, ok := s.element()
		if !ok {
			return nil
		}
		at := len(b.tables[t.at])
		b.tables[t.at] = append(b.tables[t.at], make([]cell, len(t.columns))...)
		for i, k := range key {
			b.tables[t.at][at+i] = b.tables[0][parent+k]
		}
		b.tables[t.at][at+len(key)] = strconv.AppendInt(nil, int64(ordinal), 10)
		if _, err := b.read(t, t.fields, object, at); err != nil {
			return err
		}
	}
}

// textOf is the text of a single JSON value.
func textOf(k kind, value []byte) (cell, error) {
	if k == document || value[0] != '"' {
		return value, nil
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return value[1 : len(value)-1], nil
	}
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		return nil, err //nolint:wrapcheck // the caller names the field
	}
	return []byte(s), nil
}

// scanner goes through a JSON text that is known to be valid.
type scanner struct {
	b []byte
	i int
}

// member is the next member of an object.
func (s *scanner) member() (name, value []byte, ok bool) {
	name, ok = s.element()
	if !ok {
		return nil, nil, false
	}
	value, _ = s.element()
	return name[1 : len(name)-1], value, true
}

// element is the next value within an object or array.
func (s *scanner) element() (value []byte, ok bool) {
	if s.i == 0 {
		s.skipSpace()
		s.i++ // the bracket
	}
	s.skipSpace()
	if s.i >= len(s.b) || s.b[s.i] == '}' || s.b[s.i] == ']' {
		return nil, false
	}
	from := s.i
	s.skipValue()
	return s.b[from:s.i], true
}

// skipSpace skips what stands between values.
func (s *scanner) skipSpace() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r', ',', ':':
			s.i++
		default:
			return
		}
	}
}

func (s *scanner) skipValue() {
	switch s.b[s.i] {
	case '"':
		s.skipText()
	case '{', '[':
		for depth := 0; ; {
			switch s.b[s.i] {
			case '"':
				s.skipText()
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			if s.i++; depth == 0 {
				return
			}
		}
	default:
		for s.i < len(s.b) && strings.IndexByte(" \t\n\r,:]}", s.b[s.i]) < 0 {
			s.i++
		}
	}
}

func (s *scanner) skipText() {
	for s.i++; s.b[s.i] != '"'; s.i++ {
		if s.b[s.i] == '\\' {
			s.i++
		}
	}
	s.i++
}
