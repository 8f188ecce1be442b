package scenario

import "math/rand/v2"

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
