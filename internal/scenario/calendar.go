package scenario

// Simulated moments are milliseconds since the Unix epoch, which is the precision of
// the log; days count from the same epoch. Plain integers are faster than time.Time
// and have no time zones.
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

// weekday counts from Monday, 0, to Sunday, 6.
func (d day) weekday() int {
	w := (int64(d) + 3) % 7 // day 0 was a Thursday
	if w < 0 {
		w += 7
	}
	return int(w)
}

// civil returns the date in the Gregorian calendar. It counts in eras of 400 years
// that begin in March, so that a leap day is the last day of its year.
func (d day) civil() (year, month, dayOfMonth int) {
	z := int64(d) + 719468
	era := z / 146097
	if z < 0 {
		era = (z - 146096) / 146097
	}
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	dayOfMonth = int(doy - (153*mp+2)/5 + 1)
	month = int(mp + 3)
	if month > 12 {
		month -= 12
	}
	year = int(yoe + era*400)
	if month <= 2 {
		year++
	}
	return year, month, dayOfMonth
}

// dayFrom is the reverse of civil.
func dayFrom(year, month, dayOfMonth int) day {
	y, m := int64(year), int64(month)
	if m <= 2 {
		y--
	}
	era := y / 400
	if y < 0 {
		era = (y - 399) / 400
	}
	yoe := y - era*400
	doy := (153*((m+9)%12)+2)/5 + int64(dayOfMonth) - 1
	doe := yoe*365 + yoe/4 - yoe/100 + doy
	return day(era*146097 + doe - 719468)
}

// append appends the day as YYYY-MM-DD.
func (d day) append(b []byte) []byte {
	y, m, dd := d.civil()
	b = appendDigits(b, int64(y), 4)
	b = append(b, '-')
	b = appendDigits(b, int64(m), 2)
	b = append(b, '-')
	return appendDigits(b, int64(dd), 2)
}

// appendInstant appends a moment in the public form, UTC with three decimals.
func appendInstant(b []byte, ms int64) []byte {
	d := dayOf(ms)
	t := ms - d.start()
	b = d.append(b)
	b = append(b, 'T')
	b = appendDigits(b, t/hour, 2)
	b = append(b, ':')
	b = appendDigits(b, t/minute%60, 2)
	b = append(b, ':')
	b = appendDigits(b, t/second%60, 2)
	b = append(b, '.')
	b = appendDigits(b, t%second, 3)
	return append(b, 'Z')
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
