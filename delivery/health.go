package delivery

import (
	"slices"
	"time"
)

// Health is what is remembered of a webhook's attempts to decide whether it is
// turned off (docs/contract/decisions.md, "All failed for 3 days"). The zero value is a
// webhook that does not fail.
//
// Of the failed attempts only as many are kept as the rule needs: the first
// and the last one of each eighth of a third of the time after which a webhook
// is turned off. Whether some attempt failed within a span that is longer than
// an eighth can be told from those alone, exactly.
type Health struct {
	// FailingSince is the first failed attempt after the last success, or
	// after the webhook was turned on; zero while it does not fail.
	FailingSince time.Time

	// Marks are failed attempts, oldest first; see above.
	Marks []time.Time

	// Warned counts the warnings since FailingSince, 0 to 2.
	Warned int
}

// Alarm is what the finance team is told about.
type Alarm int

// The alarms, from none to the worst.
const (
	Quiet     Alarm = iota
	Failing         // failing for a third, or two thirds, of the time
	TurnedOff       // the webhook is to be turned off now
)

// slices of the time after which a webhook is turned off.
const (
	thirds        = 3
	marksPerThird = 8
)

// Succeeded is the health after a success.
func (h Health) Succeeded() Health { return Health{} }

// Failed is the health after an attempt that failed and ended at t, and what
// is to be done about it. A webhook is turned off when there has been no
// success for the time after, counted from FailingSince, and an attempt failed
// in each third of that time: the last of them is this one.
func (h Health) Failed(t time.Time, after time.Duration) (Health, Alarm) {
	next := Health{FailingSince: h.FailingSince, Warned: h.Warned}
	if next.FailingSince.IsZero() || next.FailingSince.After(t) { // after: the clock was set back
		next.FailingSince = t
	}
	next.Marks = mark(h.Marks, t, after)
	failing := t.Sub(next.FailingSince)
	if failing >= after && eachThird(next.Marks, t, after) {
		return next, TurnedOff
	}
	// After a jump of the clock both may be due: one mail says it all.
	for due := thirds - 1; due > next.Warned; due-- {
		if failing*thirds >= time.Duration(due)*after {
			next.Warned = due
			return next, Failing
		}
	}
	return next, Quiet
}

// mark adds t and forgets what the rule will never ask for again. A clock that
// was set back leaves marks in the future; they are dropped, because the time
// they would stand for has not come yet.
func mark(marks []time.Time, t time.Time, after time.Duration) []time.Time {
	kept := make([]time.Time, 0, len(marks)+1)
	for _, m := range marks {
		if age := t.Sub(m); age >= 0 && age <= after {
			kept = append(kept, m)
		}
	}
	width := after / (thirds * marksPerThird)
	n := len(kept)
	if n >= 2 && slot(kept[n-1], width) == slot(t, width) && slot(kept[n-2], width) == slot(t, width) {
		kept[n-1] = t // the first of the slot stays, the last moves on
		return kept
	}
	return append(kept, t)
}

func slot(t time.Time, width time.Duration) int64 {
	return t.UnixMilli() / max(width.Milliseconds(), 1)
}

// eachThird tells whether some mark lies in each third of the time that ends
// at t.
func eachThird(marks []time.Time, t time.Time, after time.Duration) bool {
	var hit [thirds]bool
	for _, m := range marks {
		age := t.Sub(m)
		if age < 0 || age > after {
			continue
		}
		hit[min(int(age*thirds/max(after, 1)), thirds-1)] = true
	}
	return !slices.Contains(hit[:], false)
}
