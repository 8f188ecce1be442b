package main

import (
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// momentForm describes what parseMoment reads, before "ago" or "from now".
const momentForm = "a date-time such as 2027-01-31T00:00:00Z, a date such as 2027-01-31, or a time such as 720h or 90d"

// parseMoment reads the value of a flag: a date-time, a date, or a length of time
// after now, or before now with direction -1.
func parseMoment(s string, now time.Time, direction int) (at time.Time, ok bool) {
	if t, ok := domain.ParseTime(s); ok {
		return t, true
	}
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t, true
	}
	d, err := texts.ParseDuration(s)
	if err != nil || d <= 0 {
		return time.Time{}, false
	}
	return now.Add(time.Duration(direction) * d), true
}
