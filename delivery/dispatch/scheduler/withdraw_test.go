package scheduler

import (
	"errors"
	"maps"
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

// TestNumbersOfAttemptsNotMade: attempts that come back unmade after their webhook was to be
// given back leave no number to two events, none without an event, and none unused,
// whichever comes back first.
func TestNumbersOfAttemptsNotMade(t *testing.T) {
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
		released := b.records[0].Releases[0]
		next := newBench(func(c *Config) { c.Bound = 30 })
		next.hold("wh", func(w *Loaded) {
			w.Position, w.Sequence = released.Position, released.Numbers.Last
			for i, p := range released.Numbers.Positions {
				w.Interrupted = append(w.Interrupted, &Attempt{Position: p, Sequence: released.Numbers.Sequences[i]})
			}
		})
		started, _ := next.takeStarted()
		checkNumbering(t, name, started)
	}
}

// TestNumbersAfterOtherTypes is the same for a webhook that stays, and chooses other types
// while attempts are under way.
func TestNumbersAfterOtherTypes(t *testing.T) {
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
	checkNumbering(t, "other types", started)
}

// TestOtherTypesAfterAnAttemptNotMade: the attempt of a test, which has no number, comes back
// unmade after later events were sent. When other types are chosen then, the log is not read
// again from before these, and the event of the attempt is still sent.
func TestOtherTypesAfterAnAttemptNotMade(t *testing.T) {
	t.Parallel()
	b := newBench(func(*Config) {})
	q := b.hold("wh", nil)
	list, _ := b.takeStarted()
	first, last := list[0], list[len(list)-1]
	first.Test, first.Sequence = true, 0
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

// checkNumbering checks that attempts have the numbers from 1 on, each of one event.
func checkNumbering(t *testing.T, name string, started []*Attempt) {
	t.Helper()
	numbers, positions := map[int64]int64{}, map[int64]int64{}
	for _, a := range started {
		if p, given := numbers[a.Sequence]; given {
			t.Errorf("%s: number %d was given to the events %d and %d", name, a.Sequence, p, a.Position)
		}
		if n, given := positions[a.Position]; given {
			t.Errorf("%s: event %d has the numbers %d and %d", name, a.Position, n, a.Sequence)
		}
		numbers[a.Sequence], positions[a.Position] = a.Position, a.Sequence
	}
	for i, n := range slices.Sorted(maps.Keys(numbers)) {
		if n != int64(i)+1 {
			t.Fatalf("%s: number %d comes where %d is missing", name, n, i+1)
		}
	}
	if len(started) < 10 {
		t.Errorf("%s: only %d events are sent", name, len(started))
	}
}

// TestRecordedNumberStays: a missed event whose delivery has a number in the history keeps
// it, whatever was given since, and no other event gets it.
func TestRecordedNumberStays(t *testing.T) {
	t.Parallel()
	b := newBench(func(*Config) {})
	q := b.hold("wh", func(w *Loaded) { w.Endpoint.On = false })
	q.pending[Replay] = []*Attempt{
		{Position: 1, Sequence: 3, Recorded: true, Source: Replay, queue: q},
		{Position: 2, Sequence: 4, Source: Replay, queue: q, stored: true},
	}
	q.numbering.last = 4
	q.withdraw()
	if n := q.pending[Replay][0].Sequence; n != 3 || q.numbering.last != 3 {
		t.Errorf("the recorded one has the number %d, want 3; %d was given last, want 3", n, q.numbering.last)
	}
	if a := q.pending[Replay][1]; a.Sequence != 0 || a.ready() {
		t.Errorf("the other one still has the number %d", a.Sequence)
	}
}

// TestNumbersAfterHistory: a webhook whose first events went past their retention while it
// waited for others is not left waiting for numbers when those of the rest are withdrawn.
func TestNumbersAfterHistory(t *testing.T) {
	t.Parallel()
	b := newBench(func(c *Config) { c.Limit = 1 })
	other := b.hold("other", nil)
	list, _ := b.takeStarted()
	q := b.hold("wh", nil)
	if len(list) != 1 || list[0].queue != other || !q.pending[Live][0].stored {
		t.Fatal("the webhook does not wait, with its numbers stored, for the other one")
	}
	other.pending[Live], other.live.visible = nil, other.live.scanned
	for _, a := range q.pending[Live][:20] {
		a.Published = start.Add(time.Second - 48*time.Hour)
	}
	b.now = b.now.Add(2 * time.Second)
	b.step(Attempted{Attempt: list[0], Result: success()})
	list, _ = b.takeStarted()
	if len(list) != 1 || list[0].queue != q || list[0].Position != 21 || list[0].Sequence != 1 {
		t.Errorf("%d attempts start, want that of event 21 with number 1", len(list))
	}
}
