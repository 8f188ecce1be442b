package domain_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// The oracle's values: JSON as encoding/json gives it with UseNumber, amounts
// and hours as big rationals. Nothing here comes from the package under test.

// doc is a JSON object.
type doc = map[string]any

// parseDoc reads one JSON object; numbers stay text.
func parseDoc(text string) doc {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v doc
	if err := d.Decode(&v); err != nil {
		panic(fmt.Sprintf("oracle: %v in %s", err, text))
	}
	return v
}

// rat reads an amount or a number; absent is 0.
func rat(v any) *big.Rat {
	text := "0"
	switch v := v.(type) {
	case string:
		text = v
	case json.Number:
		text = v.String()
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		panic("oracle: no number: " + text)
	}
	return r
}

func add(a, b *big.Rat) *big.Rat { return new(big.Rat).Add(a, b) }

func sub(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }

// floor returns 0 for an amount below 0, and reports that it did.
func floor(r *big.Rat) (*big.Rat, bool) {
	if r.Sign() < 0 {
		return new(big.Rat), true
	}
	return r, false
}

// amount shows money with two decimals.
func amount(r *big.Rat) string { return r.FloatString(2) }

// money shows an optional amount of an entry.
func money(v any) any {
	if v == nil {
		return nil
	}
	return amount(rat(v))
}

// shortest shows an optional number in its shortest form.
func shortest(v any) any {
	if v == nil {
		return nil
	}
	text := rat(v).FloatString(4)
	return json.Number(strings.TrimSuffix(strings.TrimRight(text, "0"), "."))
}

// orElse is a field with its default; null when there is none.
func orElse(v, def any) any {
	if v == nil {
		return def
	}
	return v
}

const publicTime = "2006-01-02T15:04:05.000Z"

// instant shows a date-time in UTC, cut to the millisecond.
func instant(v any) string {
	t, err := time.Parse(time.RFC3339Nano, v.(string))
	if err != nil {
		panic(err)
	}
	return t.UTC().Truncate(time.Millisecond).Format(publicTime)
}

func instantOr(v any, at string) string {
	if v == nil {
		return at
	}
	return instant(v)
}

// setPeriod writes the four period fields by going through the days of the years
// around the key: slow, but with no arithmetic to get wrong.
func setPeriod(row doc, key string) {
	var of func(time.Time) bool
	var label string
	var year, n int
	const day = "2006-01-02"
	isoWeek := func(t time.Time) (int, int) { return t.ISOWeek() }
	switch {
	case scans(key, "%4d-BW%2d", &year, &n):
		of = func(t time.Time) bool { y, w := isoWeek(t); return y == year && (w == 2*n-1 || w == 2*n) }
		label = fmt.Sprintf("Weeks %d-%d, %d", 2*n-1, 2*n, year)
		if n == 27 {
			label = fmt.Sprintf("Week 53, %d", year)
		}
	case scans(key, "%4d-W%2d", &year, &n):
		of = func(t time.Time) bool { y, w := isoWeek(t); return y == year && w == n }
		label = fmt.Sprintf("Week %d, %d", n, year)
	case scans(key, "%4d-%2d", &year, &n):
		of = func(t time.Time) bool { return t.Year() == year && int(t.Month()) == n }
		label = fmt.Sprintf("%s %d", time.Month(n), year)
	default:
		panic("oracle: no period: " + key)
	}
	var first, last string
	for t := time.Date(year-1, 12, 20, 0, 0, 0, 0, time.UTC); t.Year() < year+1 || t.YearDay() < 15; t = t.AddDate(0, 0, 1) {
		if !of(t) {
			continue
		}
		if first == "" {
			first = t.Format(day)
		}
		last = t.Format(day)
	}
	row["period"], row["period_label"], row["period_start"], row["period_end"] = key, label, first, last
}

func scans(s, format string, into ...any) bool {
	n, err := fmt.Sscanf(s, format, into...)
	return err == nil && n == len(into)
}
