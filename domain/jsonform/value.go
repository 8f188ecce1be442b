package jsonform

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Form says which values a field accepts.
type Form interface {
	// Description says which values the form takes, for errors ("want …") and
	// documentation.
	Description() string
	// CanonicalText checks the text of a string and returns its canonical form. It is called for
	// fields whose value is a *string.
	CanonicalText(text string) (canonical string, ok bool)
}

// A Value is a value in a record that has its own type. Field.At returns a pointer to it. Fields
// that hold a *string or a *bool need no Value.
type Value interface {
	// AppendJSON appends the value as answers show it; null when it is absent.
	AppendJSON(b []byte) []byte
	// ScanJSON reads what AppendJSON wrote, except null: an absent value stays
	// the zero value.
	ScanJSON(s *Scanner) error
}

// An Input is a Value that can also be decoded. A *string can be decoded too, and counts as given
// if it is not empty; a *bool cannot.
type Input interface {
	Value
	// Given reports whether the value is present.
	Given() bool
	// AppendGiven appends the value, which must be present, in canonical form.
	AppendGiven(b []byte) []byte
	// DecodeJSON takes one value of any kind; ok is false if it does not have the form. The error
	// is only for invalid JSON.
	DecodeJSON(s *Scanner, form Form) (ok bool, err error)
}

// nested is an object or array inside a record. Its faults have paths below its own.
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

// noField is the panic message for a field of an unsupported type. Define rejects such fields, so
// the panics above are only for tables made without it.
func noField(v any) string { return fmt.Sprintf("jsonform: a field cannot hold a %T", v) }

func startsNumber(c byte) bool { return c == '-' || (c >= '0' && c <= '9') }

// Number takes a number by JSON's grammar and returns its text.
func (s *Scanner) Number() (string, error) {
	s.space()
	start := s.at
	if s.at < len(s.text) && s.text[s.at] == '-' {
		s.at++
	}
	whole := s.digits()
	if whole == 0 || (whole > 1 && s.text[s.at-whole] == '0') {
		return "", s.Fail("a malformed number")
	}
	if s.at < len(s.text) && s.text[s.at] == '.' {
		s.at++
		if s.digits() == 0 {
			return "", s.Fail("a malformed number")
		}
	}
	if s.at < len(s.text) && (s.text[s.at] == 'e' || s.text[s.at] == 'E') {
		s.at++
		if s.at < len(s.text) && (s.text[s.at] == '+' || s.text[s.at] == '-') {
			s.at++
		}
		if s.digits() == 0 {
			return "", s.Fail("a malformed number")
		}
	}
	return s.text[start:s.at], nil
}

// NumberOrSkip takes a number, as Number does. A value of another kind is
// skipped, and ok is false.
func (s *Scanner) NumberOrSkip() (text string, ok bool, err error) {
	if !startsNumber(s.peek()) {
		_, err = s.skip()
		return "", false, err
	}
	text, err = s.Number()
	return text, err == nil, err
}

// digits takes digits and returns how many there were.
func (s *Scanner) digits() int {
	start := s.at
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		s.at++
	}
	return s.at - start
}

const (
	// maxInt64Digits is the number of digits of the largest int64.
	maxInt64Digits = 19
	// maxExponent keeps the sum of an exponent and a digit count within an int.
	maxExponent = 1_000_000
)

// ParseNumber reads the text of a JSON number exactly, exponents included, in units of 10^-places.
// It rejects more than places decimals, more than maxWhole digits before the point, and values that
// do not fit into an int64.
func ParseNumber(text string, places, maxWhole int) (int64, bool) {
	i, negative := 0, false
	if i < len(text) && text[i] == '-' {
		negative = true
		i++
	}
	digits := make([]byte, 0, 32)
	point := -1
scan:
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case c >= '0' && c <= '9':
			digits = append(digits, c)
		case c == '.':
			point = len(digits)
		default:
			break scan
		}
	}
	if point < 0 {
		point = len(digits)
	}
	if i < len(text) { // 'e' or 'E': the scanner has checked the grammar
		exp, err := strconv.Atoi(text[i+1:])
		if err != nil || exp < -maxExponent || exp > maxExponent {
			return 0, allZero(digits) // far outside every range, unless it is a zero
		}
		point += exp
	}
	// The value is 0.digits × 10^point.
	for len(digits) > 0 && digits[0] == '0' {
		digits, point = digits[1:], point-1
	}
	for len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
	}
	if len(digits) == 0 {
		return 0, true
	}
	if point > maxWhole || len(digits)-point > places {
		return 0, false
	}
	var v int64
	for k := range point + places {
		var digit int64
		if k < len(digits) {
			digit = int64(digits[k] - '0')
		}
		if v > (math.MaxInt64-digit)/10 {
			return 0, false
		}
		v = v*10 + digit
	}
	if negative {
		v = -v
	}
	return v, true
}

func allZero(digits []byte) bool {
	for _, c := range digits {
		if c != '0' {
			return false
		}
	}
	return true
}

// ScanNumber reads a number that fits into an int64 in units of 10^-places.
func (s *Scanner) ScanNumber(places int, n *int64) error {
	text, err := s.Number()
	if err != nil {
		return err
	}
	v, ok := ParseNumber(text, places, maxInt64Digits)
	if !ok {
		return s.Fail("expected a number")
	}
	*n = v
	return nil
}

// Text takes a string and returns its contents.
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

// EscapeLineEnds escapes U+2028, U+2029 and U+0085 in b[from:]. Many programs end a line at these
// characters, although JSON does not. The JSON keeps its value, and each line of an NDJSON file is
// one line to every reader.
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

// indexLineEnd returns the index of the first of these characters, or -1 if there is none. Their
// first bytes are rare in most texts, so most bytes take only one comparison.
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

// EndsLine reports whether text contains a character that EscapeLineEnds escapes.
func EndsLine(text []byte) bool { return indexLineEnd(text) >= 0 }

// AppendText appends text as AppendString does, or null when it is empty.
func AppendText(b []byte, text string) []byte {
	if text == "" {
		return append(b, "null"...)
	}
	return AppendString(b, text)
}
