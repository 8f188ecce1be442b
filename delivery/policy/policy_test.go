package policy

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
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
		v := p.Decide(h, Attempted{N: n, Event: 1, Ended: at})
		if v.Change.TurnsOff() {
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
	// It is sent again by hand, and fails each time.
	for n := range 60 {
		if v := p.Decide(h, Attempted{N: 9 + n, Event: 1, Once: true, Ended: epoch.Add(time.Duration(n) * day)}); v.Change.TurnsOff() {
			t.Fatalf("turned off by a lone event after %d days", n)
		}
	}
	// A second event, weeks later, is the second for which every attempt has failed.
	if v := p.Decide(h, Attempted{N: 1, Event: 2, Ended: epoch.Add(30 * day)}); v.Change != TurnOff {
		t.Errorf("the first failure of a second event after weeks: %d, want it turned off", v.Change)
	}
}

// TestTurnsOffAfterThreeDaysAndNotBefore: however far apart the events are, a webhook for which
// everything fails is turned off by the first failure after three days that is the second event's
// or a later one's.
func TestTurnsOffAfterThreeDaysAndNotBefore(t *testing.T) {
	t.Parallel()
	for apart, want := range map[time.Duration][]string{
		time.Hour:       {"1 24h0m0s", "1 48h0m0s", "2 72h0m0s"},
		48 * time.Hour:  {"1 48h0m0s", "2 96h0m0s"},
		72 * time.Hour:  {"2 72h0m0s"},
		96 * time.Hour:  {"2 96h0m0s"},
		168 * time.Hour: {"2 168h0m0s"},
		720 * time.Hour: {"2 720h0m0s"},
	} {
		p, h := standard(), Health{}
		var changes []string
		for event, at := int64(1), epoch; at.Before(epoch.Add(100 * day)); event, at = event+1, at.Add(apart) {
			v := p.Decide(h, Attempted{N: 1, Event: event, Ended: at})
			h = v.Health
			if v.Change != NoChange {
				changes = append(changes, fmt.Sprint(v.Change, at.Sub(epoch)))
			}
			if v.Change.TurnsOff() {
				if v.State != Pending { // until it is turned off indeed
					t.Errorf("the delivery that turned it off is %s", v.State)
				}
				break
			}
		}
		if !slices.Equal(changes, want) {
			t.Errorf("events %v apart: changes %q, want %q", apart, changes, want)
		}
	}
}

// TestOneMoreWarningEachWeek: while a webhook keeps failing and stays on, a warning is due after
// one third and two thirds of three days, and then each week. Several that are due are one.
func TestOneMoreWarningEachWeek(t *testing.T) {
	t.Parallel()
	p, h := standard(), Health{}
	var warned []time.Duration
	attempt := func(after time.Duration) {
		v := p.Decide(h, Attempted{N: 8, Event: 1, Ended: epoch.Add(after)})
		h = v.Health
		if v.Change == Failing {
			warned = append(warned, after)
		}
	}
	for after := time.Duration(0); after <= 31*day; after += time.Hour {
		attempt(after)
	}
	attempt(100 * day)
	attempt(100*day + time.Hour)
	want := []time.Duration{day, 2 * day, 9 * day, 16 * day, 23 * day, 30 * day, 100 * day}
	if !slices.Equal(warned, want) {
		t.Errorf("warned after %v, want %v", warned, want)
	}
}

// TestGoneTurnsOff: a webhook is turned off when the last attempts of two different deliveries in
// a row were answered 410. Attempts are written as events, with ! for a 410, - for another
// failure and + for a success.
func TestGoneTurnsOff(t *testing.T) {
	t.Parallel()
	for attempts, off := range map[string]bool{
		"1! 2!": true, "1! 1! 1! 1! 1! 1! 1! 1!": false, "1! 2- 3!": false, "1! 2+ 3!": false, "1! 2+ 3! 4!": true,
		"1- 2! 3!": true, "1! 1- 2!": false, "1! 2- 1! 2!": true, "1! 2- 2!": true, "1- 1! 2!": true, "1! 2- 1!": false,
		"1! 2- 3- 2!": false, "1! 1+ 2!": false, "1- 2- 3- 4-": false,
	} {
		p, h := standard(), Health{}
		var change Change
		for i, a := range strings.Fields(attempts) {
			if change.TurnsOff() {
				t.Errorf("%s: turned off before attempt %d", attempts, i)
			}
			v := p.Decide(h, Attempted{N: 1, Event: int64(a[0]), Gone: a[1] == '!', Success: a[1] == '+', Ended: epoch.Add(time.Duration(i) * time.Minute)})
			h, change = v.Health, v.Change
		}
		if (change == TurnOffGone) != off {
			t.Errorf("%s: %d, want it turned off: %v", attempts, change, off)
		}
	}
}

// TestRetryAfter: a receiver can put off the next attempt, by at most a day from the last one,
// and cannot have it earlier. There are as many attempts as without.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for wish, want := range map[time.Duration]time.Duration{
		0: time.Minute, -time.Hour: time.Minute, 59 * time.Second: time.Minute, 61 * time.Second: 61 * time.Second,
		6 * time.Hour: 6 * time.Hour, day: day, day + time.Second: day, 1000 * day: day,
	} {
		v := standard().Decide(Health{}, Attempted{N: 1, Ended: epoch, NotBefore: epoch.Add(wish)})
		if v.State != Pending || v.Next.Sub(epoch) != want {
			t.Errorf("not before %v: %s, in %v, want %v", wish, v.State, v.Next.Sub(epoch), want)
		}
	}
	if v := standard().Decide(Health{}, Attempted{N: 7, Ended: epoch, NotBefore: epoch.Add(time.Hour)}); v.Next.Sub(epoch) != day {
		t.Errorf("the last attempt is in %v, want a day", v.Next.Sub(epoch))
	}
	if v := standard().Decide(Health{}, Attempted{N: 8, Ended: epoch, NotBefore: epoch.Add(time.Hour)}); v.State != Failed {
		t.Errorf("after the last attempt: %s", v.State)
	}
	if s, next := standard().DecideUncounted(Attempted{N: 1, Ended: epoch, NotBefore: epoch.Add(time.Hour)}); s != Pending || next.Sub(epoch) != time.Hour {
		t.Errorf("paused: %s, in %v", s, next.Sub(epoch))
	}
}

func TestSuccessAndTurnOnClear(t *testing.T) {
	t.Parallel()
	p := standard()
	h := p.Decide(Health{}, Attempted{N: 1, Event: 1, Gone: true, Ended: epoch}).Health
	if !h.FailingSince.Equal(epoch) {
		t.Errorf("failing since %v", h.FailingSince)
	}
	v := p.Decide(h, Attempted{N: 2, Ended: epoch.Add(time.Minute), Success: true})
	if v.State != Succeeded || !reflect.ValueOf(v.Health).IsZero() {
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

// naive is the rules of docs/contract/decisions.md, "Webhooks", with every attempt remembered.
type naive struct {
	failures []Failure // since it began to fail, by a clock that was not set back since
	attempts []Failure // since the last success
	warned   int
}

func (n *naive) failed(f Failure, after time.Duration) Change {
	if len(n.failures) > 0 && n.failures[0].Ended.After(f.Ended) {
		n.failures = nil
	}
	n.failures, n.attempts = append(n.failures, f), append(n.attempts, f)
	var last []Failure // of each delivery, the newest first
	for _, a := range slices.Backward(n.attempts) {
		if !slices.ContainsFunc(last, func(l Failure) bool { return l.Event == a.Event }) {
			last = append(last, a)
		}
	}
	if len(last) > 1 && last[0].Gone && last[1].Gone {
		return TurnOffGone
	}
	lasting := n.lasting()
	if lasting >= after && slices.ContainsFunc(n.failures, func(o Failure) bool { return o.Event != f.Event }) {
		return TurnOff
	}
	due := 0
	for at := after / 3; at <= lasting; due++ {
		if at += after / 3; due > 0 {
			at = after/3*2 + time.Duration(due)*7*day
		}
	}
	if due > n.warned {
		n.warned = due
		return Failing
	}
	return NoChange
}

// lasting is for how long it has failed.
func (n *naive) lasting() time.Duration {
	return n.failures[len(n.failures)-1].Ended.Sub(n.failures[0].Ended)
}

// TestRulesOverRandomHistories compares the rules with what they remember with the naive ones:
// bursts, outages, silences, successes, receivers that are gone and clocks that jump.
func TestRulesOverRandomHistories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		after := rapid.SampledFrom([]time.Duration{72 * time.Hour, 3 * time.Hour, 3 * time.Second}).Draw(t, "after")
		gone := rapid.SampledFrom([]int{0, 2, 9}).Draw(t, "gone of ten")
		events := rapid.Int64Range(1, 4).Draw(t, "events")
		var (
			h    Health
			full naive
			at   = epoch
		)
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			// Steps of a whole fraction meet the boundaries exactly.
			switch rapid.IntRange(0, 12).Draw(t, "what") {
			case 0:
				at = at.Add(after / 3)
			case 1:
				at = at.Add(time.Duration(rapid.Int64Range(0, int64(after)).Draw(t, "gap")).Truncate(time.Millisecond))
			case 2:
				at = at.Add(7 * day)
			case 3:
				at = at.Add(-time.Duration(rapid.Int64Range(0, int64(2*after)).Draw(t, "back")).Truncate(time.Millisecond))
			default:
				at = at.Add(time.Duration(rapid.Int64Range(0, int64(after/40)).Draw(t, "step")).Truncate(time.Millisecond))
			}
			if rapid.IntRange(0, 60).Draw(t, "luck") == 0 {
				h, full = Health{}, naive{}
				continue
			}
			f := Failure{Ended: at, Event: rapid.Int64Range(1, events).Draw(t, "event"), Gone: rapid.IntRange(0, 9).Draw(t, "answer") < gone}
			want := full.failed(f, after)
			var got Change
			if h, got = h.Failed(f, after); got != want {
				t.Fatalf("at %v (failing since %v): %d, want %d", at, h.FailingSince, got, want)
			}
			if h.FailingSince.After(at) || len(h.Events) > leastEvents {
				t.Fatalf("at %v: %+v", at, h)
			}
			stored := testMarshal(t, h)
			if got.TurnsOff() {
				stored, full = Health{}, naive{}
			}
			h = stored
		}
	})
}

// testMarshal is a health as it comes back from its row.
func testMarshal(t *rapid.T, h Health) Health {
	text, err := json.Marshal(h.Memory)
	if err != nil {
		t.Fatal(err)
	}
	after := Health{FailingSince: h.FailingSince, Warned: h.Warned}
	if err := json.Unmarshal(text, &after.Memory); err != nil || !reflect.DeepEqual(after, h) {
		t.Fatalf("%+v became %+v (%v)", h, after, err)
	}
	return after
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
