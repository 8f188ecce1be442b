package policy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const day = 24 * time.Hour

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func standard() Policy { return Policy{Schedule: DefaultSchedule(), TurnOffAfter: 72 * time.Hour} }

func TestScheduleIsThatOfTheService(t *testing.T) {
	t.Parallel()
	at := epoch
	var waits []time.Duration
	for n := 1; ; n++ {
		v := standard().Decide(Health{}, Attempted{N: n, Ended: at})
		if v.State != Pending {
			if v.State != Failed || n != 8 {
				t.Errorf("after attempt %d: %s", n, v.State)
			}
			break
		}
		waits = append(waits, v.Next.Sub(at))
		at = v.Next
	}
	want := []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, day}
	if !slices.Equal(waits, want) {
		t.Errorf("waits %v, want %v", waits, want)
	}
}

func TestParseSchedule(t *testing.T) {
	t.Parallel()
	s, err := ParseSchedule(" 1m, 5m,30m,2h,6h,12h,24h ")
	if err != nil || !slices.Equal(s, DefaultSchedule()) {
		t.Errorf("%v, %v", s, err)
	}
	for _, bad := range []string{"1", "x", "1m,,2m", "-1m", "0s", "1m,0", "1m;2m"} {
		if _, err := ParseSchedule(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if s, err := ParseSchedule(""); err != nil || s == nil || len(s) != 0 {
		t.Errorf("empty: %v, %v", s, err)
	}
}

func TestOneLoneEventDoesNotTurnOff(t *testing.T) {
	t.Parallel()
	p, h, at := standard(), Health{}, epoch
	warnings := 0
	for n := 1; n <= 8; n++ {
		v := p.Decide(h, Attempted{N: n, Ended: at})
		if v.Change == TurnOff {
			t.Fatalf("turned off by attempt %d", n)
		}
		if v.Change == Failing {
			warnings++
		}
		h, at = v.Health, v.Next
	}
	if warnings != 1 {
		t.Errorf("%d warnings in 44 hours of one event, want 1", warnings)
	}
	// A second event, weeks later: two attempts in three days are too few.
	v := p.Decide(h, Attempted{N: 1, Ended: epoch.Add(30 * day)})
	if v.Change == TurnOff {
		t.Error("turned off by the first failure after weeks of silence")
	}
}

func TestTurnsOffAfterThreeDaysAndNotBefore(t *testing.T) {
	t.Parallel()
	p, h := standard(), Health{}
	var changes []string
	for at := epoch; ; at = at.Add(time.Hour) {
		v := p.Decide(h, Attempted{N: 1, Ended: at})
		h = v.Health
		if v.Change != NoChange {
			changes = append(changes, fmt.Sprint(v.Change, at.Sub(epoch)))
		}
		if v.Change == TurnOff {
			if v.State != Pending { // until it is turned off indeed
				t.Errorf("the delivery that turned it off is %s", v.State)
			}
			break
		}
		if len(h.Marks) > 60 {
			t.Fatalf("%d marks are kept", len(h.Marks))
		}
	}
	if want := []string{"1 24h0m0s", "1 48h0m0s", "2 72h0m0s"}; !slices.Equal(changes, want) {
		t.Errorf("changes %q, want %q", changes, want)
	}
}

func TestSuccessAndTurnOnClear(t *testing.T) {
	t.Parallel()
	p := standard()
	h := p.Decide(Health{}, Attempted{N: 1, Ended: epoch}).Health
	if !h.FailingSince.Equal(epoch) {
		t.Errorf("failing since %v", h.FailingSince)
	}
	v := p.Decide(h, Attempted{N: 2, Ended: epoch.Add(time.Minute), Success: true})
	if v.State != Succeeded || !v.Health.FailingSince.IsZero() || len(v.Health.Marks) != 0 || v.Health.Warned != 0 {
		t.Errorf("%+v", v)
	}
}

func TestOnceIsNeverRetried(t *testing.T) {
	t.Parallel()
	for n := 1; n < 10; n++ {
		if v := standard().Decide(Health{}, Attempted{N: n, Once: true, Ended: epoch}); v.State != Failed {
			t.Errorf("attempt %d: %s", n, v.State)
		}
		if s := standard().DecideOff(Attempted{N: n, Once: true}); s != Failed {
			t.Errorf("off, attempt %d: %s", n, s)
		}
	}
	if s, _ := standard().DecideUncounted(Attempted{N: 1, Once: true, Ended: epoch}); s != Failed {
		t.Errorf("paused: %s", s)
	}
	if s, next := standard().DecideUncounted(Attempted{N: 2, Ended: epoch}); s != Pending || next.Sub(epoch) != 5*time.Minute {
		t.Errorf("paused, attempt 2: %s, the next at %v", s, next)
	}
	for want, a := range map[State]Attempted{Cancelled: {N: 7}, Failed: {N: 8}, Succeeded: {N: 8, Success: true}} {
		if s := standard().DecideOff(a); s != want {
			t.Errorf("off, attempt %d: %s, want %s", a.N, s, want)
		}
	}
	if v := standard().Decide(Health{}, Attempted{N: 11, Before: 8, Ended: epoch}); v.State != Pending || v.Next.Sub(epoch) != 30*time.Minute {
		t.Errorf("third attempt of a schedule that began again: %+v", v)
	}
}

// naive is the rule of docs/contract/decisions.md, "All failed for 3 days", with every failure remembered.
type naive struct{ failures []time.Time }

func (n *naive) failed(t time.Time, after time.Duration) bool {
	n.failures = slices.DeleteFunc(n.failures, func(f time.Time) bool { return f.After(t) })
	n.failures = append(n.failures, t)
	if t.Sub(n.failures[0]) < after {
		return false
	}
	for third := range int64(3) {
		from := t.Add(-after).Add(time.Duration(third * int64(after) / 3))
		to := t.Add(-after).Add(time.Duration((third + 1) * int64(after) / 3))
		if !slices.ContainsFunc(n.failures, func(f time.Time) bool {
			return f.After(from) && !f.After(to) || third == 0 && f.Equal(from)
		}) {
			return false
		}
	}
	return true
}

// TestTurnOffRuleOverRandomHistories compares the thinned memory with a full
// one: bursts, outages, silences, successes and clocks that jump.
func TestTurnOffRuleOverRandomHistories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		after := rapid.SampledFrom([]time.Duration{72 * time.Hour, 3 * time.Hour, 3 * time.Second}).Draw(t, "after")
		var (
			h       Health
			full    naive
			at      = epoch
			highest = epoch
			off     = 0
		)
		steps := rapid.IntRange(1, 400).Draw(t, "steps")
		for range steps {
			// Steps of a whole fraction meet the boundaries of the thirds exactly.
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				at = at.Add(after / 3)
			case 1:
				at = at.Add(time.Duration(rapid.Int64Range(0, int64(after)).Draw(t, "gap")).Truncate(time.Millisecond))
			case 2:
				at = at.Add(after / 24)
			default:
				at = at.Add(time.Duration(rapid.Int64Range(0, int64(after/40)).Draw(t, "step")).Truncate(time.Millisecond))
			}
			if rapid.IntRange(0, 60).Draw(t, "luck") == 0 {
				h, full = h.Succeeded(), naive{}
				continue
			}
			want := full.failed(at, after)
			var change Change
			h, change = h.Failed(at, after)
			if got := change == TurnOff; got != want {
				t.Fatalf("at %v (failing since %v): turned off %v, want %v", at, h.FailingSince, got, want)
			}
			if len(h.Marks) > 2*thirds*marksPerThird+4 {
				t.Fatalf("%d marks", len(h.Marks))
			}
			if change == TurnOff {
				off++
				h, full = Health{}, naive{}
			}
			highest = at
		}
		_ = highest
	})
}

func TestClockJumpsDoNotTurnOff(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h, at := Health{}, epoch
		var failures []time.Time
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			at = at.Add(time.Duration(rapid.Int64Range(-int64(100*time.Hour), int64(100*time.Hour)).Draw(t, "jump")))
			var change Change
			h, change = h.Failed(at, 72*time.Hour)
			failures = append(failures, at)
			if h.FailingSince.After(at) {
				t.Fatalf("failing since %v, which is after %v", h.FailingSince, at)
			}
			if change == TurnOff {
				near := 0
				for _, f := range failures {
					if age := at.Sub(f); age >= 0 && age <= 72*time.Hour {
						near++
					}
				}
				if near < 3 {
					t.Fatalf("turned off with %d failures in the last three days", near)
				}
				h, failures = Health{}, nil
			}
		}
	})
}

// TestDeliveriesEndByThemselves: with any receiver, a delivery ends within its schedule.
func TestDeliveriesEndByThemselves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := standard()
		h, at := Health{}, epoch
		success := rapid.IntRange(0, 9).Draw(t, "success")
		failed := 0
		for n := 1; ; n++ {
			ended := at.Add(time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "took")))
			v := p.Decide(h, Attempted{N: n, Success: n == success, Ended: ended})
			h = v.Health
			if v.State == Succeeded {
				if n != success {
					t.Fatal("succeeded without a success")
				}
				return
			}
			failed++
			if v.State != Pending {
				if failed != 8 {
					t.Fatalf("failed after %d attempts", failed)
				}
				return
			}
			if v.Next.Sub(ended) != DefaultSchedule()[n-1] {
				t.Fatalf("attempt %d: wait %v", n, v.Next.Sub(ended))
			}
			at = v.Next
		}
	})
}

func TestFairShare(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit, bound := rapid.IntRange(1, 200).Draw(t, "limit"), rapid.IntRange(1, 20).Draw(t, "bound")
		own := make([]int, rapid.IntRange(1, 100).Draw(t, "webhooks"))
		total := 0
		for range rapid.IntRange(1, 2000).Draw(t, "steps") {
			i := rapid.IntRange(0, len(own)-1).Draw(t, "webhook")
			switch {
			case rapid.Bool().Draw(t, "ends") && own[i] > 0:
				own[i]--
				total--
			case MayStart(Load{Own: own[i], Bound: bound, Total: total, Limit: limit, Webhooks: len(own)}):
				own[i]++
				total++
			case own[i] == 0 && total < limit:
				t.Fatal("a webhook with nothing under way has to wait although there is room")
			}
			if own[i] > bound || total > limit {
				t.Fatalf("%d of %d, in all %d of %d", own[i], bound, total, limit)
			}
		}
	})
}
