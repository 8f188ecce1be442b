package domain

import "time"

// The years that YYYY-MM-DD can name.
const (
	minYear = 1
	maxYear = 9999
)

// timeLayout is the public form of a date-time: UTC with exactly three
// decimals (docs/contract/decisions.md, "Responses").
const timeLayout = "2006-01-02T15:04:05.000Z"

// FormatTime returns the public form of t, `2026-10-02T09:15:00.120Z`. It truncates t to
// milliseconds.
func FormatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// AppendTime appends the public form of t.
func AppendTime(b []byte, t time.Time) []byte { return t.UTC().AppendFormat(b, timeLayout) }

// ParseTime reads an RFC 3339 date-time with an offset (docs/contract/log.md, "Forms used below").
// It truncates the time to milliseconds, without rounding, and rejects leap seconds. T and Z may be
// lower-case, as RFC 3339 allows. The result is in UTC.
func ParseTime(s string) (time.Time, bool) {
	// time.Parse accepts more than RFC 3339 (a decimal comma, one-digit hours), so the form is
	// parsed by hand.
	if len(s) < len("2006-01-02T15:04:05Z") || !isDate(s[:10]) || (s[10] != 'T' && s[10] != 't') || s[13] != ':' || s[16] != ':' {
		return time.Time{}, false
	}
	hour, ok1 := digits(s[11:13])
	minute, ok2 := digits(s[14:16])
	second, ok3 := digits(s[17:19])
	if !ok1 || !ok2 || !ok3 || hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, false
	}
	ms, rest, ok := fraction(s[19:])
	if !ok {
		return time.Time{}, false
	}
	offset, ok := offsetSeconds(rest)
	if !ok {
		return time.Time{}, false
	}
	year, _ := digits(s[:4])
	month, _ := digits(s[5:7])
	day, _ := digits(s[8:10])
	t := time.Date(year, time.Month(month), day, hour, minute, second, ms*int(time.Millisecond), time.UTC).
		Add(-time.Duration(offset) * time.Second)
	return t, t.Year() >= minYear && t.Year() <= maxYear
}

// PublishTimeDescription says which values ParsePublishTime takes.
const PublishTimeDescription = "a date-time from 1970 on: RFC 3339 with an offset, such as 2026-10-02T09:15:00.120Z"

// ParsePublishTime is ParseTime for the created_at of an entry. It rejects times before 1970: they
// usually come from a producer whose clock or field was never set (docs/contract/log.md, "An
// entry").
func ParsePublishTime(s string) (time.Time, bool) {
	t, ok := ParseTime(s)
	return t, ok && IsPublishTime(t)
}

// IsPublishTime reports whether an entry may have been published at t.
func IsPublishTime(t time.Time) bool {
	return !t.Before(time.Unix(0, 0)) && t.UTC().Year() <= maxYear
}

// fraction reads an optional ".ddd…" and truncates it to milliseconds.
func fraction(s string) (ms int, rest string, ok bool) {
	if s == "" || s[0] != '.' {
		return 0, s, true
	}
	n := 1
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	if n == 1 {
		return 0, "", false
	}
	for k := 1; k <= 3; k++ {
		ms *= 10
		if k < n {
			ms += int(s[k] - '0')
		}
	}
	return ms, s[n:], true
}

// offsetSeconds reads "Z" or "±hh:mm".
func offsetSeconds(s string) (int, bool) {
	if s == "Z" || s == "z" {
		return 0, true
	}
	if len(s) != 6 || (s[0] != '+' && s[0] != '-') || s[3] != ':' {
		return 0, false
	}
	hour, ok1 := digits(s[1:3])
	minute, ok2 := digits(s[4:6])
	if !ok1 || !ok2 || hour > 23 || minute > 59 {
		return 0, false
	}
	seconds := hour*3600 + minute*60
	if s[0] == '-' {
		seconds = -seconds
	}
	return seconds, true
}

// isDate reports whether s is the YYYY-MM-DD of a real day.
func isDate(s string) bool {
	if len(s) != 10 || s[4] != '-' || s[7] != '-' {
		return false
	}
	year, ok1 := digits(s[:4])
	month, ok2 := digits(s[5:7])
	day, ok3 := digits(s[8:10])
	if !ok1 || !ok2 || !ok3 || year < minYear || month < 1 || month > 12 || day < 1 {
		return false
	}
	return day <= time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}
