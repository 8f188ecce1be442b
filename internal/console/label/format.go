package label

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/plural"
)

// Count writes a number with commas between thousands.
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural is "1 event" or "2 events".
func Plural(n any, one, many string) string {
	var count int64
	switch n := n.(type) {
	case int:
		count = int64(n)
	case int64:
		count = n
	}
	return Count(count) + " " + plural.Word(count, one, many)
}

// Ago tells how long before now a moment was, roughly.
func Ago(now, t time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return "never"
	case d < time.Minute:
		return "just now"
	}
	return roughly(d) + " ago"
}

// Until tells how long after now a moment is, roughly.
func Until(now, t time.Time) string {
	if d := t.Sub(now); d >= time.Second {
		return "in " + roughly(d)
	}
	return "now"
}

// roughly tells how long something takes, in one unit.
func roughly(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return Plural(int(d/time.Second), "second", "seconds")
	case d < 2*time.Hour:
		return Plural(int(d/time.Minute), "minute", "minutes")
	case d < 2*day:
		return Plural(int(d/time.Hour), "hour", "hours")
	}
	return Plural(int(d/day), "day", "days")
}

// Millis writes a time given in milliseconds.
func Millis(ms int64) string {
	if ms < 1000 {
		return Count(ms) + " ms"
	}
	return fmt.Sprintf("%.1f s", float64(ms)/1000)
}

// Bytes writes a size given in bytes.
func Bytes(n int64) string {
	if n < 1024 {
		return Plural(n, "byte", "bytes")
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/1024)
}

// Sentence makes a sentence of an error's text.
func Sentence(s string) string {
	if s == "" {
		return s
	}
	return firstUpper(s) + "."
}

// IndentJSON formats JSON for reading. Text that is not JSON stays as it is.
func IndentJSON(text string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(text), "", "  ") != nil {
		return text
	}
	return b.String()
}
