package policy

import "time"

// State is the state of a delivery (docs/contract/decisions.md, "The retry schedule").
type State string

// The states.
const (
	Pending   State = "pending"
	Succeeded State = "succeeded"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Policy holds the settings that decide what follows an attempt.
type Policy struct {
	Schedule     Schedule
	TurnOffAfter time.Duration // time without a success before a webhook is turned off
}

// Attempted describes one attempt of one delivery.
type Attempted struct {
	N       int  // its number in the delivery; 1 is the first attempt
	Before  int  // attempts made before the schedule began again; 0 unless a missed event is sent again
	Once    bool // "Send again": no further attempt follows
	Success bool
	Ended   time.Time

	Event int64 // position of the event in the log
	Gone  bool  // the receiver answered 410

	// NotBefore is the earliest time for the next attempt that the receiver asked for
	// (Retry-After); zero: it did not ask.
	NotBefore time.Time
}

// maxRetryAfter bounds how long a receiver may put off the next attempt.
const maxRetryAfter = 24 * time.Hour

// Verdict is what follows an attempt.
type Verdict struct {
	State  State
	Next   time.Time // time of the next attempt of a pending delivery, otherwise zero
	Health Health
	Change Change
}

// Decide returns what follows an attempt to a webhook that is on. If the change turns it off,
// a delivery may be Pending none the less: turning the webhook off cancels it.
func (p Policy) Decide(h Health, a Attempted) Verdict {
	if a.Success {
		health, change := h.Succeeded(a.Ended)
		return Verdict{State: Succeeded, Health: health, Change: change}
	}
	v := Verdict{}
	v.Health, v.Change = h.Failed(Failure{Ended: a.Ended, Event: a.Event, Gone: a.Gone}, p.TurnOffAfter)
	v.State, v.Next = p.DecideUncounted(a)
	return v
}

// DecideOff returns the state of a delivery after an attempt to a webhook that
// is off, or that was turned off during the attempt. There is no further
// attempt.
func (p Policy) DecideOff(a Attempted) State {
	if a.Success {
		return Succeeded
	}
	if _, more := p.Schedule.Next(a.N-a.Before, a.Ended); more && !a.Once {
		return Cancelled
	}
	return Failed
}

// DecideUncounted returns what follows a failed attempt that does not count against its webhook,
// such as one that is paused or about to be turned off. The delivery goes on by the schedule;
// turning the webhook off cancels it with everything else that is pending. A receiver may put the
// next attempt off beyond the schedule, to at most 24 hours after this attempt.
func (p Policy) DecideUncounted(a Attempted) (s State, next time.Time) {
	if a.Once {
		return Failed, time.Time{}
	}
	if next, ok := p.Schedule.Next(a.N-a.Before, a.Ended); ok {
		if latest := a.Ended.Add(maxRetryAfter); a.NotBefore.After(latest) {
			a.NotBefore = latest
		}
		if a.NotBefore.After(next) {
			next = a.NotBefore
		}
		return Pending, next
	}
	return Failed, time.Time{}
}

// Load is how many attempts are in flight, and how many may be.
type Load struct {
	Own, Bound   int // of the webhook
	Total, Limit int // of the process
	Webhooks     int // how many the process delivers to
}

// MayStart reports whether a webhook may start another attempt. It may use its own bound while less
// than half of the process's limit is in use, and after that an even share of the limit. A webhook
// with nothing in flight may always start one attempt within the limit.
func MayStart(l Load) bool {
	if l.Own >= l.Bound || l.Total >= l.Limit {
		return false
	}
	if l.Own == 0 || l.Total < l.Limit/2 {
		return true
	}
	return l.Own < max(1, l.Limit/max(l.Webhooks, 1))
}
