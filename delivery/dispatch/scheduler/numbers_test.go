package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// simNumbers are the numbers of a simulated webhook: those that its rows have, and those
// that its receiver may have seen.
type simNumbers struct {
	last   int64
	stored map[int64]int64 // of the cursor, by position

	ofEvent map[int64]int64 // by position, of attempts that were started
	events  map[int64]int64 // positions by number
	live    map[int64]int64 // of events that were not missed first, by position
	highest int64           // of an attempt that was started, though it may not have been made
}

func newSimNumbers() simNumbers {
	return simNumbers{stored: map[int64]int64{}, ofEvent: map[int64]int64{}, events: map[int64]int64{}, live: map[int64]int64{}}
}

// isTest tells whether the entry at a position is a test ping.
func isTest(position int64) bool { return position%7 == 0 }

// number stores numbers, perhaps without an answer. Webhooks whose row is locked are left out.
func (p *process) number(n *Number) {
	w := p.world
	if p.dead {
		return
	}
	answer := NumbersStored{Number: n}
	lost := w.chance(8)
	if lost && w.chance(2) {
		w.after(250*time.Millisecond, func() { p.tell(answer) }) // nothing was stored
		return
	}
	for i := range n.Webhooks {
		k := n.Webhooks[i].Key
		if h := w.webhooks[k]; h.holder == n.Lease && !p.leaseIsOver(n.Lease) && !w.now.Before(h.locked) {
			h.numbers.store(&n.Webhooks[i])
			answer.Keys = append(answer.Keys, k)
		}
	}
	if lost {
		answer.Keys = nil
	}
	w.after(w.takes(5*time.Millisecond), func() { p.tell(answer) })
}

// store replaces the numbers of the cursor.
func (s *simNumbers) store(n *Numbers) {
	if n == nil {
		return
	}
	s.last, s.stored = n.Last, map[int64]int64{}
	for i, p := range n.Positions {
		s.stored[p] = n.Sequences[i]
	}
}

// load adds the numbers to a webhook that is loaded.
func (s *simNumbers) load(h *simWebhook, l *Loaded) {
	l.Sequence = s.last
	for _, p := range slices.Sorted(maps.Keys(s.stored)) {
		a := &Attempt{Position: p, EventID: fmt.Sprint(p), Sequence: s.stored[p]}
		if d := h.deliveries[p]; d != nil {
			if d.sequence > 0 {
				continue
			}
			a.CreatedAt, a.Made, a.Before = d.createdAt, d.attempts, d.attempts
		}
		l.Interrupted = append(l.Interrupted, a)
	}
}

// mayHaveBeenSent tells whether an attempt's number cannot be given to another event.
func (s *simNumbers) mayHaveBeenSent(a *Attempt) bool {
	if a.Source == Interrupted || a.Recorded {
		return true
	}
	return s.highest >= a.Sequence && a.Sequence > 0
}

// checkNumber holds an attempt that starts to the promises about numbers.
func (w *world) checkNumber(a *Attempt, h *simWebhook, made bool) {
	n := &h.numbers
	if a.Test {
		if a.Sequence != 0 {
			w.t.Fatalf("%v: the test at %d has number %d", h.key, a.Position, a.Sequence)
		}
		return
	}
	d := h.deliveries[a.Position]
	switch {
	case a.Sequence <= 0:
		w.t.Fatalf("%v: event %d is sent without a number", h.key, a.Position)
	case n.stored[a.Position] != a.Sequence && (d == nil || d.sequence != a.Sequence):
		w.t.Fatalf("%v: event %d is sent with number %d, which is not in the database", h.key, a.Position, a.Sequence)
	case n.ofEvent[a.Position] != 0 && n.ofEvent[a.Position] != a.Sequence:
		w.t.Fatalf("%v: event %d is sent with number %d, and before it was with %d", h.key, a.Position, a.Sequence, n.ofEvent[a.Position])
	case n.events[a.Sequence] != 0 && n.events[a.Sequence] != a.Position:
		w.t.Fatalf("%v: number %d is that of event %d, and before it was that of %d", h.key, a.Sequence, a.Position, n.events[a.Sequence])
	}
	n.highest = max(n.highest, a.Sequence)
	if !made {
		return
	}
	n.ofEvent[a.Position], n.events[a.Sequence] = a.Sequence, a.Position
	if a.Source == Live {
		n.live[a.Position] = a.Sequence
	}
}

// checkNumbers checks at the end that the numbers are without gap, and in log order but
// for events that were sent as missed and those of types that were chosen later.
func (w *world) checkNumbers(h *simWebhook) {
	n := &h.numbers
	highest := int64(0)
	for s := range n.events {
		highest = max(highest, s)
	}
	waiting := map[int64]bool{} // for a webhook that is off to be turned on
	for _, s := range n.stored {
		waiting[s] = !h.on
	}
	for s := int64(1); s <= highest; s++ {
		if n.events[s] == 0 && !waiting[s] {
			w.t.Fatalf("%v: number %d was never sent, and %d was", h.key, s, highest)
		}
	}
	before := int64(0)
	for _, p := range slices.Sorted(maps.Keys(n.live)) {
		if h.edited && isOptional(p) {
			continue // its type may have been chosen after later events were sent
		}
		if n.live[p] <= before {
			w.t.Fatalf("%v: event %d has number %d, which is not above %d of one before it", h.key, p, n.live[p], before)
		}
		before = n.live[p]
	}
}
