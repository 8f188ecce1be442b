package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// parseMoment reads the value of a flag: a date-time, a date, or a length of time
// before or after now.
func parseMoment(s string, now time.Time, before bool) (time.Time, error) {
	if t, ok := domain.ParseTime(s); ok {
		return t, nil
	}
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t, nil
	}
	text, inDays := strings.CutSuffix(s, "d")
	if inDays {
		text += "h"
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		if inDays {
			d *= 24
		}
		if before {
			d = -d
		}
		return now.Add(d), nil
	}
	return time.Time{}, fmt.Errorf("%q: want a date-time such as 2027-01-31T00:00:00Z, a date such as 2027-01-31, or a time such as 720h or 90d", s)
}
