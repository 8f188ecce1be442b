package jsonform

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Text takes a string and returns what it holds.
func (s *Scanner) Text() (string, error) {
	if s.peek() != '"' {
		return "", s.Fail("expected a string")
	}
	s.at++
	start := s.at
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			raw := s.text[start:s.at]
			s.at++
			if !utf8.ValidString(raw) {
				s.at = start
				return "", s.Fail("text that is not UTF-8")
			}
			return raw, nil
		case c == '\\':
			return s.unescape(start)
		case c < ' ':
			return "", s.Fail("a bare control character in a string")
		}
	}
	return "", s.Fail("a string without an end")
}

// TextOrSkip takes a string, as Text does. A value of another kind is
// skipped, and ok is false.
func (s *Scanner) TextOrSkip() (text string, ok bool, err error) {
	if s.peek() != '"' {
		_, err = s.skip()
		return "", false, err
	}
	text, err = s.Text()
	return text, err == nil, err
}

// unescape takes the rest of a string that began at start and has its first
// escape at s.at.
func (s *Scanner) unescape(start int) (string, error) {
	var out strings.Builder
	out.WriteString(s.text[start:s.at])
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			text := out.String()
			if !utf8.ValidString(text) {
				s.at = start
				return "", s.Fail("text that is not UTF-8")
			}
			return text, nil
		case c < ' ':
			return "", s.Fail("a bare control character in a string")
		case c != '\\':
			out.WriteByte(c)
			s.at++
		default:
			r, err := s.escape()
			if err != nil {
				return "", err
			}
			out.WriteRune(r)
		}
	}
	return "", s.Fail("a string without an end")
}

// escape takes one escape sequence; a surrogate pair counts as one.
func (s *Scanner) escape() (rune, error) {
	s.at++
	if s.at >= len(s.text) {
		return 0, s.Fail("a string without an end")
	}
	c := s.text[s.at]
	s.at++
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
	return 0, s.Fail("an unknown escape")
}

func (s *Scanner) unicodeEscape() (rune, error) {
	r, err := s.hex4()
	if err != nil {
		return 0, err
	}
	switch {
	case r >= 0xDC00 && r <= 0xDFFF:
		return 0, s.Fail("half a surrogate pair")
	case r >= 0xD800 && r <= 0xDBFF:
		if !s.Literal(`\u`) {
			return 0, s.Fail("half a surrogate pair")
		}
		low, err := s.hex4()
		if err != nil {
			return 0, err
		}
		if low < 0xDC00 || low > 0xDFFF {
			return 0, s.Fail("half a surrogate pair")
		}
		return 0x10000 + (r-0xD800)<<10 + (low - 0xDC00), nil
	}
	return r, nil
}

func (s *Scanner) hex4() (rune, error) {
	if len(s.text)-s.at < 4 {
		return 0, s.Fail("an unfinished escape")
	}
	var r rune
	for _, c := range []byte(s.text[s.at : s.at+4]) {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 + rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 + rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 + rune(c-'A'+10)
		default:
			return 0, s.Fail("an unfinished escape")
		}
	}
	s.at += 4
	return r, nil
}

// AppendString appends text, which must be valid UTF-8, as a JSON string with
// only the escapes that JSON requires.
func AppendString(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := range len(text) {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, text[start:i]...)
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
	b = append(b, text[start:]...)
	return append(b, '"')
}

// EscapeLineEnds writes the characters in b from a place on at which many programs end a line, and JSON
// does not, as escapes: U+2028, U+2029 and U+0085. What was JSON there has the same value. Each line of
// a file of lines is then one line to every reader.
func EscapeLineEnds(b []byte, from int) []byte {
	n := indexLineEnd(b[from:])
	if n < 0 {
		return b
	}
	rest := append([]byte(nil), b[from+n:]...)
	for b = b[:from+n]; ; rest = rest[n:] {
		n = indexLineEnd(rest)
		if n < 0 {
			return append(b, rest...)
		}
		b = append(b, rest[:n]...)
		r, size := utf8.DecodeRune(rest[n:])
		b = fmt.Appendf(b, `\u%04x`, r)
		n += size
	}
}

// indexLineEnd is where the first of these characters begins; below 0: there is none. Their first
// bytes are rare in most texts.
func indexLineEnd(b []byte) int {
	for i := range b {
		switch {
		case b[i] < 0xc2:
		case b[i] == 0xc2 && i+1 < len(b) && b[i+1] == 0x85,
			b[i] == 0xe2 && i+2 < len(b) && b[i+1] == 0x80 && b[i+2]|1 == 0xa9:
			return i
		}
	}
	return -1
}

// EndsLine reports whether text has one of the characters that EscapeLineEnds escapes.
func EndsLine(text []byte) bool { return indexLineEnd(text) >= 0 }

// AppendText appends text as AppendString does, or null when it is empty.
func AppendText(b []byte, text string) []byte {
	if text == "" {
		return append(b, "null"...)
	}
	return AppendString(b, text)
}
