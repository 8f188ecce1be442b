package web

import "time"

// ParseMoment reads a moment as the input of a form sends it: with scripts in UTC as such,
// without in the form of the input, which is UTC then, too.
func ParseMoment(text string) (t time.Time, ok bool) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// Moment is the input of an optional moment in a form, which the part "moment" shows.
type Moment struct {
	Name  string    // for people
	Field string    // of the form
	At    time.Time // zero: empty
}

// QueryMoment reads a moment from the address; what cannot be read is empty.
func (r *Request) QueryMoment(name, field string) Moment {
	t, _ := ParseMoment(r.Query(field))
	return Moment{Name: name, Field: field, At: t}
}

// Value is the input's value without scripts, in UTC.
func (m Moment) Value() string {
	if m.At.IsZero() {
		return ""
	}
	return m.At.Format("2006-01-02T15:04")
}

// UTC is the moment for scripts and addresses.
func (m Moment) UTC() string {
	if m.At.IsZero() {
		return ""
	}
	return m.At.Format(time.RFC3339)
}
