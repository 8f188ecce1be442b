package domain

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// A scanner walks JSON text strictly (RFC 8259): no comments, no trailing
// commas, no duplicate leniency, valid UTF-8 and whole surrogate pairs. The
// standard decoder is not strict enough for a log that keeps exact bytes: it
// folds the case of names, takes the last of two equal ones and repairs
// broken text.
//
// It reads from a string, so that what it hands out shares the input's memory
// without a copy.
type scanner struct {
	b string
	i int
}

// errJSON is wrapped by every complaint about the JSON itself.
var errJSON = errors.New("not valid JSON")

func (s *scanner) fail(what string) error {
	return fmt.Errorf("%w: %s at byte %d", errJSON, what, s.i+1)
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// peek returns the next byte that is not white space, or 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// expect takes one punctuation byte.
func (s *scanner) expect(c byte) error {
	if s.peek() != c {
		return s.fail(fmt.Sprintf("expected %q", string(c)))
	}
	s.i++
	return nil
}

// literal takes an exact run of bytes without looking past white space.
func (s *scanner) literal(lit string) bool {
	if len(s.b)-s.i >= len(lit) && s.b[s.i:s.i+len(lit)] == lit {
		s.i += len(lit)
		return true
	}
	return false
}

// end requires that nothing but white space follows.
func (s *scanner) end() error {
	if s.peek() != 0 || s.i < len(s.b) {
		return s.fail("text after the value")
	}
	return nil
}

// members walks the members of an object and calls each with its name; each
// must take the value. A name given twice is an error.
func (s *scanner) members(each func(name string) error) error {
	if err := s.expect('{'); err != nil {
		return err
	}
	if s.peek() == '}' {
		s.i++
		return nil
	}
	for {
		if s.peek() != '"' {
			return s.fail("expected a name in quotes")
		}
		name, err := s.str()
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
			s.i++
		case '}':
			s.i++
			return nil
		default:
			return s.fail("expected a comma or the end of the object")
		}
	}
}

// elements walks an array and calls each before every element.
func (s *scanner) elements(each func(index int) error) error {
	if err := s.expect('['); err != nil {
		return err
	}
	if s.peek() == ']' {
		s.i++
		return nil
	}
	for n := 0; ; n++ {
		if err := each(n); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.i++
		case ']':
			s.i++
			return nil
		default:
			return s.fail("expected a comma or the end of the array")
		}
	}
}

// str takes a string.
func (s *scanner) str() (string, error) {
	if s.peek() != '"' {
		return "", s.fail("expected a string")
	}
	s.i++
	start := s.i
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			raw := s.b[start:s.i]
			s.i++
			if !utf8.ValidString(raw) {
				s.i = start
				return "", s.fail("text that is not UTF-8")
			}
			return raw, nil
		case c == '\\':
			return s.escaped(start)
		case c < ' ':
			return "", s.fail("a bare control character in a string")
		}
	}
	return "", s.fail("a string without an end")
}

// escaped goes on with a string in which an escape was met at s.i.
func (s *scanner) escaped(start int) (string, error) {
	var out strings.Builder
	out.WriteString(s.b[start:s.i])
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			text := out.String()
			if !utf8.ValidString(text) {
				s.i = start
				return "", s.fail("text that is not UTF-8")
			}
			return text, nil
		case c < ' ':
			return "", s.fail("a bare control character in a string")
		case c != '\\':
			out.WriteByte(c)
			s.i++
		default:
			r, err := s.escape()
			if err != nil {
				return "", err
			}
			out.WriteRune(r)
		}
	}
	return "", s.fail("a string without an end")
}

// escape takes one escape sequence, a surrogate pair as one.
func (s *scanner) escape() (rune, error) {
	s.i++
	if s.i >= len(s.b) {
		return 0, s.fail("a string without an end")
	}
	c := s.b[s.i]
	s.i++
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		return s.unicodeEscape()
	}
	return 0, s.fail("an unknown escape")
}

func (s *scanner) unicodeEscape() (rune, error) {
	r, err := s.hex4()
	if err != nil {
		return 0, err
	}
	switch {
	case r >= 0xDC00 && r <= 0xDFFF:
		return 0, s.fail("half a surrogate pair")
	case r >= 0xD800 && r <= 0xDBFF:
		if !s.literal(`\u`) {
			return 0, s.fail("half a surrogate pair")
		}
		low, err := s.hex4()
		if err != nil {
			return 0, err
		}
		if low < 0xDC00 || low > 0xDFFF {
			return 0, s.fail("half a surrogate pair")
		}
		return 0x10000 + (r-0xD800)<<10 + (low - 0xDC00), nil
	}
	return r, nil
}

func (s *scanner) hex4() (rune, error) {
	if len(s.b)-s.i < 4 {
		return 0, s.fail("an unfinished escape")
	}
	var r rune
	for _, c := range []byte(s.b[s.i : s.i+4]) {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 + rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 + rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 + rune(c-'A'+10)
		default:
			return 0, s.fail("an unfinished escape")
		}
	}
	s.i += 4
	return r, nil
}

// number takes a number by the grammar of JSON and returns its text.
func (s *scanner) number() (string, error) {
	s.space()
	start := s.i
	if s.i < len(s.b) && s.b[s.i] == '-' {
		s.i++
	}
	whole := s.digitRun()
	if whole == 0 || (whole > 1 && s.b[s.i-whole] == '0') {
		return "", s.fail("a malformed number")
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if s.digitRun() == 0 {
			return "", s.fail("a malformed number")
		}
	}
	if s.i < len(s.b) && (s.b[s.i] == 'e' || s.b[s.i] == 'E') {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if s.digitRun() == 0 {
			return "", s.fail("a malformed number")
		}
	}
	return s.b[start:s.i], nil
}

func (s *scanner) digitRun() int {
	start := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i - start
}

// maxDepth bounds nesting, so that a hostile line cannot exhaust the stack.
const maxDepth = 32

// skip takes any value and returns its text: for values of a wrong kind, so
// that the rest of the line can still be checked.
func (s *scanner) skip() (string, error) { return s.skipDeep(0) }

func (s *scanner) skipDeep(depth int) (string, error) {
	if depth > maxDepth {
		return "", s.fail("nested too deeply")
	}
	c := s.peek()
	start := s.i
	var err error
	switch {
	case c == '{':
		err = s.members(func(string) error { _, err := s.skipDeep(depth + 1); return err })
	case c == '[':
		err = s.elements(func(int) error { _, err := s.skipDeep(depth + 1); return err })
	case c == '"':
		_, err = s.str()
	case c == '-' || (c >= '0' && c <= '9'):
		_, err = s.number()
	case s.literal("true"), s.literal("false"), s.literal("null"):
	default:
		err = s.fail("expected a value")
	}
	return s.b[start:s.i], err
}

// appendString appends s as a JSON string with no escapes but those JSON
// requires (docs/contract/log.md, "Stored form").
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}
