package delivery

import "time"

// State of a delivery.
type State string

// The states of docs/contract/decisions.md, "Webhooks".
const (
	Pending   State = "pending"
	Succeeded State = "succeeded"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Policy is the settings that decide what comes after an attempt.
type Policy struct {
	Schedule     Schedule
	TurnOffAfter time.Duration
}

// Attempted is one attempt of one delivery, as far as it decides what is next.
type Attempted struct {
	N       int  // 1 for the delivery's first attempt
	Before  int  // attempts made before the schedule was begun; 0 but for missed events sent again
	Once    bool // "Send again": no further attempt, whatever comes of it
	Success bool
	Ended   time.Time
}

// Verdict is what is next.
type Verdict struct {
	State  State
	Next   time.Time // the next attempt of a pending delivery, else zero
	Health Health
	Alarm  Alarm
}

// Decide says what comes after an attempt to a webhook that is on. When the
// alarm is TurnedOff, the verdict's state is cancelled instead of pending: so
// is every other delivery of the webhook that waits.
func (p Policy) Decide(h Health, a Attempted) Verdict {
	if a.Success {
		return Verdict{State: Succeeded, Health: h.Succeeded()}
	}
	v := Verdict{State: Failed}
	v.Health, v.Alarm = h.Failed(a.Ended, p.TurnOffAfter)
	if a.Once {
		return v
	}
	if next, ok := p.Schedule.Next(a.N-a.Before, a.Ended); ok {
		v.State, v.Next = Pending, next
		if v.Alarm == TurnedOff {
			v.State, v.Next = Cancelled, time.Time{}
		}
	}
	return v
}

// DecideOff says what comes of an attempt to a webhook that is off, or went off
// while it was under way: nothing more.
func (p Policy) DecideOff(a Attempted) State {
	if a.Success {
		return Succeeded
	}
	if _, more := p.Schedule.Next(a.N-a.Before, a.Ended); more && !a.Once {
		return Cancelled
	}
	return Failed
}

// mayStart is a webhook's share of the messages under way in the process:
// its own bound while there is room, an even share of all when half of the
// process's limit is taken. A webhook that has none may always start one
// within the limit.
func mayStart(own, bound, total, limit, webhooks int) bool {
	if own >= bound || total >= limit {
		return false
	}
	if own == 0 || total < limit/2 {
		return true
	}
	return own < max(1, limit/max(webhooks, 1))
}
