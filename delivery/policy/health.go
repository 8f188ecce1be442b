package policy

import (
	"slices"
	"time"
)

// Health is what is known about a webhook's failures, to decide whether it is turned off
// (docs/contract/decisions.md, "Webhooks"). The zero value is a webhook that is not failing.
type Health struct {
	// FailingSince is the first failed attempt after the last success, or after the webhook was
	// turned on, was resumed, or got another address; zero while it is not failing.
	FailingSince time.Time

	// Warned counts the warnings that were due since FailingSince.
	Warned int

	Memory
}

// Memory is what the rules remember of the attempts since Health.FailingSince. Events are named
// by their positions in the log.
type Memory struct {
	// Events are the first two different events that an attempt failed for.
	Events []int64 `json:"events,omitempty"`

	// Last is the event of the last attempt; Gone tells whether that was answered 410, and
	// GoneBefore the same of the last attempt for the event whose turn was before it.
	Last       int64 `json:"last,omitempty"`
	Gone       bool  `json:"gone,omitempty"`
	GoneBefore bool  `json:"gone_before,omitempty"`
}

// Failure is a failed attempt.
type Failure struct {
	Ended time.Time
	Event int64 // position of the event in the log
	Gone  bool  // it was answered 410
}

// Change is a change of a webhook's health that the finance team is told about.
type Change int

// The changes.
const (
	NoChange    Change = iota
	Failing            // it has failed for so long that a warning is due
	TurnOff            // it is to be turned off now, because it has failed for too long
	TurnOffGone        // it is to be turned off now, because the receiver says that it is gone
)

// TurnsOff tells whether the webhook is to be turned off.
func (c Change) TurnsOff() bool { return c == TurnOff || c == TurnOffGone }

const (
	// Warnings are due after one third and two thirds of the time after which a webhook is turned
	// off, and then once in warnAgain for as long as it is not.
	thirds    = 3
	warnAgain = 7 * 24 * time.Hour

	// leastEvents is for how many different events attempts must have failed, so that a lone event
	// on a quiet webhook does not turn it off.
	leastEvents = 2
)

// Succeeded returns the health after a success.
func (h Health) Succeeded() Health { return Health{} }

// Failed returns the health after a failed attempt, and what follows from it. A webhook is turned
// off when it had no success for the duration turnOffAfter since FailingSince and attempts for at
// least two different events have failed in that time, or when the last attempts of two different
// deliveries in a row were answered 410.
func (h Health) Failed(f Failure, turnOffAfter time.Duration) (Health, Change) {
	if h.FailingSince.IsZero() || h.FailingSince.After(f.Ended) { // after it: the clock was set back
		h.FailingSince, h.Events = f.Ended, nil
	}
	if len(h.Events) < leastEvents && !slices.Contains(h.Events, f.Event) {
		h.Events = append(slices.Clip(h.Events), f.Event)
	}
	if f.Event != h.Last {
		h.Last, h.GoneBefore = f.Event, h.Gone
	}
	h.Gone = f.Gone
	failing := f.Ended.Sub(h.FailingSince)
	switch {
	case h.Gone && h.GoneBefore:
		return h, TurnOffGone
	case failing >= turnOffAfter && len(h.Events) == leastEvents:
		return h, TurnOff
	}
	// After a jump of the clock several warnings may be due; one mail is enough.
	if due := warningsDue(failing, turnOffAfter); due > h.Warned {
		h.Warned = due
		return h, Failing
	}
	return h, NoChange
}

// warningsDue is how many warnings are due once a webhook has failed for a time.
func warningsDue(failing, turnOffAfter time.Duration) int {
	const before = thirds - 1 // that many are due before it may be turned off
	if late := failing - turnOffAfter*before/thirds; late >= 0 {
		return before + int(late/warnAgain)
	}
	return int(failing * thirds / turnOffAfter)
}

// TurnOffAt returns which of the attempts, oldest first, turns the webhook off when all of them
// fail; zero: none does.
func (h Health) TurnOffAt(attempts []Failure, turnOffAfter time.Duration) time.Time {
	for _, f := range attempts {
		var change Change
		if h, change = h.Failed(f, turnOffAfter); change.TurnsOff() {
			return f.Ended
		}
	}
	return time.Time{}
}
