package scenario

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// timeline is the simulated time of an agency: its clock, the steps that are
// planned, and the randomness that everything is drawn from.
type timeline struct {
	rng   *rand.Rand
	queue queue

	// clock is the time of the queue. now is the moment that dates, periods and
	// created_at follow. In a history they are the same, and lines carry
	// created_at. A Living gives each step the caller's now, and its clock only
	// orders the steps.
	clock, now int64
	history    bool
}

// step runs the earliest planned step.
func (t *timeline) step() {
	e := t.queue.pop()
	t.clock = e.at
	if t.history {
		t.now = e.at
	}
	e.run()
}

// today is the day of now.
func (t *timeline) today() day { return dayOf(t.now) }

// chance is true in so many of 1000 cases.
func (t *timeline) chance(perMille uint32) bool { return t.rng.Uint32N(1000) < perMille }

// between draws from lo to hi, hi not included; lo where hi is not above it.
func (t *timeline) between(lo, hi int64) int64 {
	if hi <= lo {
		return lo
	}
	return lo + t.rng.Int64N(hi-lo)
}

// pick draws one of the words.
func (t *timeline) pick(words []string) string { return words[t.rng.IntN(len(words))] }

// after plans a step that machines do, between lo and hi milliseconds from now, at
// any hour.
func (t *timeline) after(lo, hi int64, run func()) {
	t.queue.push(t.clock+t.between(lo, hi), run)
}

// afterInOffice plans a step that people do: as after, but in office hours.
func (t *timeline) afterInOffice(lo, hi int64, run func()) {
	t.queue.push(t.office(t.clock+t.between(lo, hi)), run)
}

// Office hours, on working days.
const (
	opening = 8 * hour
	closing = 19 * hour
)

// office moves a moment outside office hours to a moment in the next ones.
func (t *timeline) office(at int64) int64 {
	d := dayOf(at)
	sinceMidnight := at - d.start()
	weekday := d.weekday()
	switch {
	case weekday >= 5:
		d += day(7 - weekday)
	case sinceMidnight < opening:
	case sinceMidnight < closing:
		return at
	case weekday == 4:
		d += 3
	default:
		d++
	}
	return d.start() + t.between(opening, closing)
}

// Simulated moments are milliseconds since the Unix epoch, which is the precision of
// the log; days count from the same epoch. Plain integers have no time zones.
const (
	second  int64 = 1000
	minute        = 60 * second
	hour          = 60 * minute
	fullDay       = 24 * hour
)

// day counts days since 1970-01-01.
type day int64

// dayOf returns the day (UTC) of a moment.
func dayOf(ms int64) day {
	d := ms / fullDay
	if ms%fullDay < 0 {
		d--
	}
	return day(d)
}

// start is the first moment of the day.
func (d day) start() int64 { return int64(d) * fullDay }

// date is the first moment of the day, as a time.
func (d day) date() time.Time { return time.UnixMilli(d.start()).UTC() }

// weekday counts from Monday, 0, to Sunday, 6.
func (d day) weekday() int { return int(d.date().Weekday()+6) % 7 }

// append appends the day as YYYY-MM-DD.
func (d day) append(b []byte) []byte { return d.date().AppendFormat(b, time.DateOnly) }

// appendInstant appends a moment in the public form, UTC with three decimals.
func appendInstant(b []byte, ms int64) []byte {
	return time.UnixMilli(ms).UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
}

// appendDigits appends v in decimal with at least width digits.
func appendDigits(b []byte, v int64, width int) []byte {
	var tmp [20]byte
	i := len(tmp)
	for v > 0 || width > 0 {
		i--
		tmp[i] = byte('0' + v%10)
		v /= 10
		width--
	}
	return append(b, tmp[i:]...)
}

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
