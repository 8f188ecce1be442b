package client

import (
	"fmt"
	"time"
)

// Date is a day without a time, such as 2026-10-02. Dates are in order as text.
type Date string

// DateOf is the day of a time, at the time's own place.
func DateOf(t time.Time) Date { return Date(t.Format(time.DateOnly)) }

// Time is the beginning of the day in UTC.
func (d Date) Time() (time.Time, error) {
	t, err := time.Parse(time.DateOnly, string(d))
	if err != nil {
		return t, fmt.Errorf("read a date: %w", err)
	}
	return t, nil
}
