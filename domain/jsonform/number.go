package jsonform

import (
	"math"
	"strconv"
)

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

// ParseNumber reads the text of a JSON number exactly, exponents included, in
// units of 10^-places. It refuses more than places decimals, more than maxWhole
// digits before the point, and what does not fit into an int64.
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
