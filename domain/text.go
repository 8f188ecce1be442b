package domain

import (
	"unicode"
	"unicode/utf8"
)

// Limits of the forms (docs/contract/log.md, "Forms used below").
const (
	maxIDLength   = 64
	MaxTextLength = 4096 // characters
)

// IsID reports whether s has the form of an id, `^[A-Za-z0-9_-]{1,64}$`. Ids contain no slash, so
// keys may join ids with one.
func IsID(s string) bool {
	if s == "" || len(s) > maxIDLength {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// isText reports whether s is 1 to 4,096 characters, without control characters other than newline
// and tab.
func isText(s string) bool {
	if s == "" || !utf8.ValidString(s) {
		return false
	}
	n := 0
	for _, r := range s {
		n++
		if n > MaxTextLength || (unicode.IsControl(r) && r != '\n' && r != '\t') {
			return false
		}
	}
	return true
}

// isCurrency reports whether s is three capital letters.
func isCurrency(s string) bool {
	if len(s) != 3 {
		return false
	}
	for i := range len(s) {
		if s[i] < 'A' || s[i] > 'Z' {
			return false
		}
	}
	return true
}
