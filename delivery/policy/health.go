package policy

import (
	"slices"
	"time"
)

// Health is what the rules know about a webhook's failures when they decide whether to turn it off
// (docs/contract/decisions.md, "Webhooks"). The zero value is a webhook that is not failing.
type Health struct {
	// FailingSince is the end of the first failed attempt after the last success, or after the
	// webhook was turned on, resumed or given another address; zero while it is not failing.
	FailingSince time.Time

	// Warned counts the warnings that were due since FailingSince.
	Warned int

	Memory
}

// Memory is what the rules remember about the attempts since Health.FailingSince. It names events
// by their positions in the log.
type Memory struct {
	// Events are the first two different events for which an attempt failed.
	Events []int64 `json:"events,omitempty"`

	// Last is the event of the last attempt, and Gone says that the receiver answered it with 410.
	// GoneBefore says the same of the last attempt for the event that came before Last.
	Last       int64 `json:"last,omitempty"`
	Gone       bool  `json:"gone,omitempty"`
	GoneBefore bool  `json:"gone_before,omitempty"`

	// Consecutive is how many attempts in a row have failed, up to leastConsecutive.
	Consecutive int `json:"consecutive,omitempty"`

	// Recovered is when a success led to Recovered, in Unix milliseconds, until everything that was
	// pending is due. A process that takes over finds it here and goes on.
	Recovered int64 `json:"recovered,omitempty"`
}

// Failure is a failed attempt.
type Failure struct {
	Ended time.Time
	Event int64 // position of the event in the log
	Gone  bool  // the receiver answered 410
}

// Change is a change of a webhook's health that the finance team is told about.
type Change int

// The changes.
const (
	NoChange    Change = iota
	Failing            // it has failed for so long that a warning is due
	TurnOff            // turn it off now: it has failed for too long
	TurnOffGone        // turn it off now: the receiver says that it is gone
	Recovered          // it works again after several failures: what is pending is due now
)

// TurnsOff reports whether the webhook must be turned off.
func (c Change) TurnsOff() bool { return c == TurnOff || c == TurnOffGone }

const (
	// Warnings are due after one third and two thirds of the time to turning off, and then once
	// every warnAgain while the webhook stays on.
	thirds    = 3
	warnAgain = 7 * 24 * time.Hour

	// leastEvents is the minimum number of different events with failed attempts, so that a lone
	// event on a quiet webhook does not turn it off.
	leastEvents = 2

	// leastConsecutive is how many attempts in a row must have failed before a success for what is pending to
	// be sent at once.
	leastConsecutive = 3
)

// Succeeded returns the health after a success, and the change that follows.
func (h Health) Succeeded(ended time.Time) (Health, Change) {
	if h.Consecutive >= leastConsecutive {
		return Health{Memory: Memory{Recovered: ended.UnixMilli()}}, Recovered
	}
	return Health{Memory: Memory{Recovered: h.Recovered}}, NoChange
}

// Failed returns the health after a failed attempt, and the change that follows. Either of these
// turns a webhook off:
//
//   - It has had no success for turnOffAfter since FailingSince, and attempts for at least two
//     different events have failed in that time.
//   - The last attempts of two different deliveries in a row were answered 410.
func (h Health) Failed(f Failure, turnOffAfter time.Duration) (Health, Change) {
	if h.FailingSince.IsZero() || h.FailingSince.After(f.Ended) { // After: the clock was set back
		h.FailingSince, h.Events = f.Ended, nil
	}
	if len(h.Events) < leastEvents && !slices.Contains(h.Events, f.Event) {
		h.Events = append(slices.Clip(h.Events), f.Event)
	}
	if f.Event != h.Last {
		h.Last, h.GoneBefore = f.Event, h.Gone
	}
	h.Gone = f.Gone
	h.Consecutive = min(h.Consecutive+1, leastConsecutive)
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

// warningsDue returns how many warnings are due after a webhook has failed for a time.
func warningsDue(failing, turnOffAfter time.Duration) int {
	const before = thirds - 1 // warnings that are due before it may be turned off
	if late := failing - turnOffAfter*before/thirds; late >= 0 {
		return before + int(late/warnAgain)
	}
	return int(failing * thirds / turnOffAfter)
}

// TurnOffAt returns when the webhook is turned off if all the attempts, oldest first, fail; zero:
// it is not.
func (h Health) TurnOffAt(attempts []Failure, turnOffAfter time.Duration) time.Time {
	for _, f := range attempts {
		var change Change
		if h, change = h.Failed(f, turnOffAfter); change.TurnsOff() {
			return f.Ended
		}
	}
	return time.Time{}
}
