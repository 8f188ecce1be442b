package scenario

import "time"

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
