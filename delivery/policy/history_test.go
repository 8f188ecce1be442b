package policy

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// history is a webhook with its deliveries in virtual time, beside what
// docs/contract/decisions.md, "Webhooks", requires of it, word by word.
type history struct {
	t        *rapid.T
	policy   Policy
	at       time.Time
	health   Health
	on       bool
	failures naive // since the last success, or since it was turned on
	all      []*course
}

// course is the course of one delivery.
type course struct {
	event    int64
	state    State
	attempts int
	before   int
	next     time.Time
	once     bool
}

// attempt makes an attempt that is due and checks what is decided.
func (h *history) attempt(c *course, success, gone bool) {
	c.attempts++
	a := Attempted{N: c.attempts, Before: c.before, Once: c.once, Success: success, Ended: h.at, Event: c.event, Gone: gone && !success}
	c.once = false
	last := a.Once || c.attempts-c.before > len(h.policy.Schedule)
	if !h.on {
		c.state = h.policy.DecideOff(a)
		if !a.Once || (c.state == Succeeded) != success || c.state == Pending || c.state == Cancelled {
			h.t.Fatalf("an attempt while off: %+v is %s", a, c.state)
		}
		return
	}
	before := h.health.Recovered // nothing ends a recovery here
	v := h.policy.Decide(h.health, a)
	h.health, c.state, c.next = v.Health, v.State, v.Next
	if success {
		want := NoChange
		if len(h.failures.attempts) >= 3 {
			want = Recovered
		}
		h.failures = naive{}
		recovered := before
		if want == Recovered {
			recovered = h.at.UnixMilli()
		}
		if v.State != Succeeded || v.Change != want || !v.Health.FailingSince.IsZero() || v.Health.Recovered != recovered {
			h.t.Fatalf("a success: %+v", v)
		}
		return
	}
	want := h.failures.failed(Failure{Ended: h.at, Event: c.event, Gone: a.Gone}, h.policy.TurnOffAfter)
	if v.Change != want {
		h.t.Fatalf("after %v of failing: %d, want %d", h.failures.lasting(), v.Change, want)
	}
	off := want.TurnsOff()
	switch {
	case last && v.State != Failed, !last && v.State != Pending:
		h.t.Fatalf("attempt %d (%d before, once %v), turned off %v: %s", a.N, a.Before, a.Once, off, v.State)
	case v.State == Pending && v.Next.Sub(h.at) != h.policy.Schedule[c.attempts-c.before-1]:
		h.t.Fatalf("attempt %d: the next in %v", a.N, v.Next.Sub(h.at))
	}
	if off {
		h.on = false
		for _, other := range h.all {
			if other.state == Pending {
				other.state = Cancelled // webhook_cancel
			}
		}
	}
}

// due returns the deliveries whose next attempt is due.
func (h *history) due() (list []*course) {
	for _, c := range h.all {
		if c.state == Pending && !c.next.After(h.at) {
			list = append(list, c)
		}
	}
	return list
}

// TestRandomHistoriesInVirtualTime runs a webhook for weeks: events at
// random, receivers that fail for a moment or for days, a clock that jumps
// ahead, and a user who sends again, turns on and sends what was missed.
func TestRandomHistoriesInVirtualTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := &history{t: t, policy: standard(), at: epoch, on: true}
		outage := false
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			switch rapid.IntRange(0, 11).Draw(t, "what") {
			case 0:
				outage = !outage
			case 1: // the clock jumps, or nothing happens for long
				h.at = h.at.Add(time.Duration(rapid.Int64Range(0, int64(40*time.Hour)).Draw(t, "jump")).Truncate(time.Millisecond))
			case 2: // "Send again"
				if len(h.all) > 0 {
					if c := rapid.SampledFrom(h.all).Draw(t, "again"); c.state != Pending {
						c.state, c.next, c.once = Pending, h.at, true
					}
				}
			case 3: // "Turn back on", and "Send missed"
				if !h.on {
					h.on, h.health, h.failures = true, Health{}, naive{}
					for _, c := range h.all {
						if c.state == Failed || c.state == Cancelled {
							c.state, c.next, c.before = Pending, h.at, c.attempts
						}
					}
				}
			case 4, 5, 6:
				if h.on {
					h.all = append(h.all, &course{event: int64(len(h.all) + 1), state: Pending, next: h.at})
				}
			default:
				h.at = h.at.Add(time.Duration(rapid.Int64Range(0, int64(3*time.Hour)).Draw(t, "wait")).Truncate(time.Millisecond))
			}
			for _, c := range h.due() {
				if c.state == Pending { // otherwise the webhook was turned off by the one before
					h.attempt(c, !outage && rapid.IntRange(0, 9).Draw(t, "luck") > 0, rapid.IntRange(0, 9).Draw(t, "gone") == 0)
				}
			}
		}
		// Without further events every delivery ends.
		for range 100 {
			h.at = h.at.Add(day)
			for _, c := range h.due() {
				if c.state == Pending {
					h.attempt(c, false, false)
				}
			}
		}
		for _, c := range h.all {
			if c.state == Pending || c.attempts == 0 && c.state != Cancelled {
				t.Fatalf("a delivery is left %+v", c)
			}
		}
	})
}
