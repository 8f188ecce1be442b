package jsonform

import (
	"errors"
	"fmt"
)

// A Scanner walks JSON text strictly (RFC 8259). encoding/json is not strict
// enough for a log that keeps exact bytes: it ignores the case of names, takes
// the last of two equal ones and repairs invalid text. The tokens of jsontext took almost three
// times as long and copy each text, and its decoder cannot read a part of an object.
//
// It reads from a string, so the texts that it returns share the input's memory
// and need no copy. Value types use it to read themselves; errors name the byte,
// counted from 1.
type Scanner struct {
	text string
	at   int
}

// errJSON is wrapped by every error about the JSON itself.
var errJSON = errors.New("not valid JSON")

// maxDepth bounds nesting, so that a hostile line cannot exhaust the stack.
const maxDepth = 32

// Fail returns an error that says what is wrong at the current byte.
func (s *Scanner) Fail(what string) error {
	return fmt.Errorf("%w: %s at byte %d", errJSON, what, s.at+1)
}

func (s *Scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// peek skips white space and returns the next byte without taking it; 0 at the
// end.
func (s *Scanner) peek() byte {
	s.space()
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

// expect takes one punctuation byte.
func (s *Scanner) expect(c byte) error {
	if s.peek() != c {
		return s.Fail(fmt.Sprintf("expected %q", string(c)))
	}
	s.at++
	return nil
}

// Literal takes lit if exactly these bytes come next; it does not skip white
// space.
func (s *Scanner) Literal(lit string) bool {
	if len(s.text)-s.at >= len(lit) && s.text[s.at:s.at+len(lit)] == lit {
		s.at += len(lit)
		return true
	}
	return false
}

// end requires that only white space follows.
func (s *Scanner) end() error {
	if s.peek() != 0 || s.at < len(s.text) {
		return s.Fail("text after the value")
	}
	return nil
}

// members walks an object and calls each with every name, in order; each must take the value. Names
// may repeat: each has to detect that.
func (s *Scanner) members(each func(name string) error) error {
	if err := s.expect('{'); err != nil {
		return err
	}
	if s.peek() == '}' {
		s.at++
		return nil
	}
	for {
		if s.peek() != '"' {
			return s.Fail("expected a name in quotes")
		}
		name, err := s.Text()
		if err != nil {
			return err
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		if err := each(name); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.at++
		case '}':
			s.at++
			return nil
		default:
			return s.Fail("expected a comma or the end of the object")
		}
	}
}

// elements walks an array and calls each with every index; each must take the
// element.
func (s *Scanner) elements(each func(index int) error) error {
	if err := s.expect('['); err != nil {
		return err
	}
	if s.peek() == ']' {
		s.at++
		return nil
	}
	for n := 0; ; n++ {
		if err := each(n); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.at++
		case ']':
			s.at++
			return nil
		default:
			return s.Fail("expected a comma or the end of the array")
		}
	}
}

// skip takes any value and returns its text. Decoding skips values of the wrong
// kind, so that the rest of the input can still be checked.
func (s *Scanner) skip() (string, error) { return s.skipNested(0) }

func (s *Scanner) skipNested(depth int) (string, error) {
	if depth > maxDepth {
		return "", s.Fail("nested too deeply")
	}
	c := s.peek()
	start := s.at
	var err error
	switch {
	case c == '{':
		err = s.members(func(string) error { _, err := s.skipNested(depth + 1); return err })
	case c == '[':
		err = s.elements(func(int) error { _, err := s.skipNested(depth + 1); return err })
	case c == '"':
		_, err = s.Text()
	case startsNumber(c):
		_, err = s.Number()
	case s.Literal("true"), s.Literal("false"), s.Literal("null"):
	default:
		err = s.Fail("expected a value")
	}
	return s.text[start:s.at], err
}
