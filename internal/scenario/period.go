package scenario

import (
	"fmt"
	"time"
)

// cycle says how often a client is billed.
type cycle uint8

const (
	monthly cycle = iota
	fortnightly
	weekly
	cycles // how many there are
)

// period is one billing period: its key and its first and last day.
type period struct {
	key        string
	start, end day
}

// days is the usual length of a period, for estimates.
func (c cycle) days() int {
	switch c {
	case weekly:
		return 7
	case fortnightly:
		return 14
	default:
		return 30
	}
}

// period returns the period that a day is in.
func (c cycle) period(d day) period {
	date := d.date()
	if c == monthly {
		first := time.Date(date.Year(), date.Month(), 1, 0, 0, 0, 0, time.UTC)
		next := first.AddDate(0, 1, 0)
		return period{date.Format("2006-01"), dayOf(first.UnixMilli()), dayOf(next.UnixMilli()) - 1}
	}
	year, week := date.ISOWeek()
	monday := d - day(d.weekday())
	if c == weekly {
		return period{fmt.Sprintf("%04d-W%02d", year, week), monday, monday + 6}
	}
	key := fmt.Sprintf("%04d-BW%02d", year, (week+1)/2)
	switch {
	case week%2 == 0:
		return period{key, monday - 7, monday + 6}
	case week == 53: // alone, because the next year begins with BW01
		return period{key, monday, monday + 6}
	default:
		return period{key, monday, monday + 13}
	}
}
