package scenario

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
	if c == monthly {
		return monthOf(d)
	}
	year, week := isoWeek(d)
	monday := d - day(d.weekday())
	b := make([]byte, 0, 9)
	b = appendDigits(b, int64(year), 4)
	if c == weekly {
		b = append(b, "-W"...)
		return period{string(appendDigits(b, int64(week), 2)), monday, monday + 6}
	}
	b = append(b, "-BW"...)
	n := (week + 1) / 2
	key := string(appendDigits(b, int64(n), 2))
	switch {
	case week%2 == 0:
		return period{key, monday - 7, monday + 6}
	case week == 53: // alone, because the next year begins with BW01
		return period{key, monday, monday + 6}
	default:
		return period{key, monday, monday + 13}
	}
}

func monthOf(d day) period {
	y, m, _ := d.civil()
	b := make([]byte, 0, 7)
	b = appendDigits(b, int64(y), 4)
	b = append(b, '-')
	b = appendDigits(b, int64(m), 2)
	next, nm := y, m+1
	if nm > 12 {
		next, nm = y+1, 1
	}
	return period{string(b), dayFrom(y, m, 1), dayFrom(next, nm, 1) - 1}
}

// isoWeek returns the ISO 8601 year and week, which are those of the week's
// Thursday.
func isoWeek(d day) (year, week int) {
	thursday := d - day(d.weekday()) + 3
	year, _, _ = thursday.civil()
	return year, int(thursday-dayFrom(year, 1, 1))/7 + 1
}
