package policy

import (
	"slices"
	"time"
)

// Health is what is known about a webhook's failures, to decide whether it is
// turned off (docs/contract/decisions.md, "All failed for 3 days"). The zero
// value is a webhook that is not failing.
//
// Not every failed attempt is kept, only the first and the last one of each
// eighth of a third of Policy.TurnOffAfter. That is enough to tell exactly
// whether an attempt failed within a span longer than an eighth.
type Health struct {
	// FailingSince is the first failed attempt after the last success, or
	// after the webhook was turned on; zero while it is not failing.
	FailingSince time.Time

	// Marks are the failed attempts that are kept, oldest first.
	Marks []time.Time

	// Warned counts the warnings since FailingSince, 0 to 2.
	Warned int
}

// Change is a change of a webhook's health that the finance team is told about.
type Change int

// The changes.
const (
	NoChange Change = iota
	Failing         // it has failed for one third, or two thirds, of Policy.TurnOffAfter
	TurnOff         // it is to be turned off now
)

const (
	thirds        = 3
	marksPerThird = 8
)

// Succeeded returns the health after a success.
func (h Health) Succeeded() Health { return Health{} }

// Failed returns the health after an attempt that failed and ended at t, and
// what follows from it. A webhook is turned off when it had no success for the
// duration turnOffAfter since FailingSince and an attempt failed in each third
// of that time; the attempt at t is the last of them.
func (h Health) Failed(t time.Time, turnOffAfter time.Duration) (Health, Change) {
	next := Health{FailingSince: h.FailingSince, Warned: h.Warned}
	if next.FailingSince.IsZero() || next.FailingSince.After(t) { // after t: the clock was set back
		next.FailingSince = t
	}
	next.Marks = mark(h.Marks, t, turnOffAfter)
	failing := t.Sub(next.FailingSince)
	if failing >= turnOffAfter && eachThird(next.Marks, t, turnOffAfter) {
		return next, TurnOff
	}
	// After a jump of the clock both warnings may be due; one mail is enough.
	for due := thirds - 1; due > next.Warned; due-- {
		if failing*thirds >= time.Duration(due)*turnOffAfter {
			next.Warned = due
			return next, Failing
		}
	}
	return next, NoChange
}

// TurnOffAt returns which of the attempts, oldest first, turns the webhook off when all of
// them fail; zero: none does.
func (h Health) TurnOffAt(attempts []time.Time, turnOffAfter time.Duration) time.Time {
	for _, t := range attempts {
		var change Change
		if h, change = h.Failed(t, turnOffAfter); change == TurnOff {
			return t
		}
	}
	return time.Time{}
}

// mark adds t and drops marks that the rule no longer needs. Marks in the
// future, left by a clock that was set back, are dropped too.
func mark(marks []time.Time, t time.Time, turnOffAfter time.Duration) []time.Time {
	kept := make([]time.Time, 0, len(marks)+1)
	for _, m := range marks {
		if age := t.Sub(m); age >= 0 && age <= turnOffAfter {
			kept = append(kept, m)
		}
	}
	width := turnOffAfter / (thirds * marksPerThird)
	n := len(kept)
	if n >= 2 && slot(kept[n-1], width) == slot(t, width) && slot(kept[n-2], width) == slot(t, width) {
		kept[n-1] = t // keep the first of the slot, replace the last
		return kept
	}
	return append(kept, t)
}

// slot numbers the spans of a width since 1970.
func slot(t time.Time, width time.Duration) int64 {
	return t.UnixMilli() / max(width.Milliseconds(), 1)
}

// eachThird tells whether there is a mark in each third of the time that ends
// at t.
func eachThird(marks []time.Time, t time.Time, turnOffAfter time.Duration) bool {
	var hit [thirds]bool
	for _, m := range marks {
		age := t.Sub(m)
		if age < 0 || age > turnOffAfter {
			continue
		}
		hit[min(int(age*thirds/max(turnOffAfter, 1)), thirds-1)] = true
	}
	return !slices.Contains(hit[:], false)
}
