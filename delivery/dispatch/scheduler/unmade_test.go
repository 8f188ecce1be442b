package scheduler

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// notMade are the answers to attempts that were not made.
func notMade(list ...*Attempt) (events []Event) {
	for i, a := range list {
		if i%2 == 0 {
			events = append(events, NotAttempted{Attempt: a, Err: errors.New("its secret cannot be opened")})
		} else {
			events = append(events, Returned{Attempt: a})
		}
	}
	return events
}

// TestAttemptsNotMade: the events of attempts that come back unmade after their webhook was
// to be given back are sent by who holds it next, each once and in order, whichever comes
// back first.
func TestAttemptsNotMade(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]int{
		"in order":       {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
		"the last first": {9, 8, 7, 6, 5, 4, 3, 2, 1, 0},
		"some between":   {4, 9, 5, 0, 1, 8, 2, 6, 7, 3},
	} {
		b := newBench(func(*Config) {})
		q := b.hold("wh", nil)
		list, _ := b.takeStarted()
		b.evict(q)
		back := make([]*Attempt, len(order))
		for i, at := range order {
			back[i] = list[at]
		}
		for _, e := range notMade(back...) {
			b.step(e)
		}
		b.step(Tick{})
		if len(b.records) != 1 || len(b.records[0].Releases) != 1 {
			t.Fatalf("%s: the webhook is not given back", name)
		}
		next := newBench(func(c *Config) { c.Bound = 30 })
		next.hold("wh", func(w *Loaded) { w.Position = b.records[0].Releases[0].Position })
		started, _ := next.takeStarted()
		checkOrder(t, name, started)
	}
}

// TestOtherTypesWhileAttemptsAreNotMade is the same for a webhook that stays, and chooses
// other types while attempts are under way.
func TestOtherTypesWhileAttemptsAreNotMade(t *testing.T) {
	t.Parallel()
	b := newBench(func(*Config) {})
	q := b.hold("wh", nil)
	choose := func(types ...string) {
		e := *q.endpoint
		e.Version++
		e.Events = types
		q.change(&Loaded{Key: q.key, Endpoint: &e})
	}
	list, _ := b.takeStarted()
	b.step(notMade(list[0])...)
	choose("invoice.reversed")
	b.step(notMade(list[1:]...)...)
	choose("time_entry.approved")
	b.now = b.now.Add(2 * time.Minute)
	b.step(Changed{WorkspaceIDs: []string{"acme"}})
	started, _ := b.takeStarted()
	checkOrder(t, "other types", started)
}

// TestOtherTypesAfterAnAttemptNotMade: an attempt comes back unmade after later events were
// sent. When other types are chosen then, the log is not read again from before these, and
// the event of the attempt is still sent.
func TestOtherTypesAfterAnAttemptNotMade(t *testing.T) {
	t.Parallel()
	b := newBench(func(*Config) {})
	q := b.hold("wh", nil)
	list, _ := b.takeStarted()
	first, last := list[0], list[len(list)-1]
	b.step(notMade(first)...)
	b.end(success(), list[1:]...)
	e := *q.endpoint
	e.Version++
	e.Events = []string{"invoice.reversed"}
	q.change(&Loaded{Key: q.key, Endpoint: &e})
	if q.live.scanned < last.Position {
		t.Errorf("the log is read again from after %d, although event %d was sent", q.live.scanned, last.Position)
	}
	if !q.holds(first.Position) && !slices.Contains(q.pending[Live], first) {
		t.Errorf("event %d is not sent any more", first.Position)
	}
}

// checkOrder checks that attempts are of the events from 1 on, each once.
func checkOrder(t *testing.T, name string, started []*Attempt) {
	t.Helper()
	for i, a := range started {
		if a.Position != int64(i)+1 {
			t.Fatalf("%s: event %d is sent where event %d is next", name, a.Position, i+1)
		}
	}
	if len(started) < 10 {
		t.Errorf("%s: only %d events are sent", name, len(started))
	}
}

// TestAfterHistory: a webhook whose first events went past their retention while it waited
// for others goes on with the rest.
func TestAfterHistory(t *testing.T) {
	t.Parallel()
	b := newBench(func(c *Config) { c.Limit = 1 })
	other := b.hold("other", nil)
	list, _ := b.takeStarted()
	q := b.hold("wh", nil)
	if len(list) != 1 || list[0].queue != other || len(q.pending[Live]) < 21 {
		t.Fatal("the webhook does not wait for the other one")
	}
	other.pending[Live], other.live.visible = nil, other.live.scanned
	for _, a := range q.pending[Live][:20] {
		a.Published = start.Add(time.Second - 48*time.Hour)
	}
	b.now = b.now.Add(2 * time.Second)
	b.step(Attempted{Attempt: list[0], Result: success()})
	list, _ = b.takeStarted()
	if len(list) != 1 || list[0].queue != q || list[0].Position != 21 {
		t.Errorf("%d attempts start, want that of event 21", len(list))
	}
}
