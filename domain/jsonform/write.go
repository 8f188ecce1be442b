package jsonform

import (
	"errors"
	"fmt"
)

// AppendGiven appends a record in canonical form: an object of the fields that
// were given, in table order.
func (fs Fields[R]) AppendGiven(b []byte, r *R) []byte {
	b = append(b, '{')
	first := true
	for i := range fs {
		v := fs[i].At(r)
		if !given(v) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = appendGiven(append(b, fs[i].key...), v)
	}
	return append(b, '}')
}

// AppendPart appends all fields of one part of a record. Part 0 opens the object and no part closes
// it, so a whole object is part 0, any other parts, and a closing brace.
func (fs Fields[R]) AppendPart(b []byte, r *R, part Part) []byte {
	separator := byte(',')
	if part == 0 {
		separator = '{'
	}
	for i := range fs {
		f := &fs[i]
		if f.Part != part {
			continue
		}
		b = append(b, separator)
		separator = ','
		b = f.AppendTo(b, r)
	}
	return b
}

// AppendTo appends the field's name and value as AppendPart does, without the separator. The field
// must be in a table that Define made.
func (f *Field[R]) AppendTo(b []byte, r *R) []byte {
	b = append(b, f.key...)
	if f.Derive != nil {
		return f.Derive(b, r)
	}
	return appendJSON(b, f.At(r))
}

// errPart is wrapped by every error about a stored part.
var errPart = errors.New("a stored fragment is damaged")

// ReadPart fills a new record from a part that AppendPart wrote. It skips derived fields; any other
// deviation is an error.
func (fs Fields[R]) ReadPart(text string, r *R, part Part) error {
	s := &Scanner{text: text}
	if err := fs.scanPart(s, r, part); err != nil {
		return err
	}
	if s.at != len(s.text) {
		return fmt.Errorf("%w: text after the last field", errPart)
	}
	return nil
}

func (fs Fields[R]) scanPart(s *Scanner, r *R, part Part) error {
	separator := ","
	if part == 0 {
		separator = "{"
	}
	for i := range fs {
		f := &fs[i]
		if f.Part != part {
			continue
		}
		if !s.Literal(separator) || !s.Literal(f.key) {
			return fmt.Errorf("%w: no %s at byte %d", errPart, f.Name, s.at+1)
		}
		separator = ","
		var err error
		if f.Derive != nil {
			_, err = s.skip()
		} else {
			err = scan(s, f.At(r))
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", errPart, f.Name, err)
		}
	}
	return nil
}

// scanObject reads a whole nested object, which has only part 0.
func (fs Fields[R]) scanObject(s *Scanner, r *R) error {
	if err := fs.scanPart(s, r, 0); err != nil {
		return err
	}
	if !s.Literal("}") {
		return fmt.Errorf("%w: an object without an end", errPart)
	}
	return nil
}

// appendObject is the reverse of scanObject.
func (fs Fields[R]) appendObject(b []byte, r *R) []byte {
	return append(fs.AppendPart(b, r, 0), '}')
}
