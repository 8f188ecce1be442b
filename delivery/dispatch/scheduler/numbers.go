package scheduler

import (
	"maps"
	"slices"
	"time"
)

// Messages to a webhook carry a number: 1, 2, 3, … over the events that it is to get, in
// the order in which their turn came. An event's number is in the database before its
// first attempt starts, so that a process that takes over sends it with the same one. To
// cost less than a statement for each delivery, numbers are given ahead, to many events
// of many webhooks in one statement. A number that no attempt can have carried is
// withdrawn when its event is not to be sent after all; the next event gets it.
const (
	// numberAhead is how many events of a source are numbered before their turn to start.
	numberAhead = 64

	// renumberPause is the pause before numbers are stored again that could not be,
	// because another transaction has locked the webhook's cursor. It doubles up to
	// maxRenumberPause.
	renumberPause    = 5 * time.Millisecond
	maxRenumberPause = time.Second
)

// Number stores the numbers that were given to events of webhooks. A webhook whose cursor
// another transaction has locked is left out.
type Number struct {
	Lease    string
	Webhooks []Numbers

	queues []*queue
}

func (*Number) effect() {}

// Numbers are the numbers of one webhook.
type Numbers struct {
	Key  Key
	Last int64 // the last one given

	// The events that have a number and no delivery that is known to be recorded.
	Positions, Sequences []int64
}

// numbers holds the queues that wait for a Number.
type numbers struct {
	dirty    []*queue
	underWay bool
}

// numbering is what a queue knows of its webhook's numbers.
type numbering struct {
	last int64 // given last
	sent int64 // the highest one of an attempt that was made, here or by a process before

	dirty    bool
	underWay bool
	inRow    int       // how often they could not be stored
	until    time.Time // not before this time
}

// mark adds a queue that has events to number.
func (n *numbers) mark(q *queue) {
	if !q.numbering.dirty {
		q.numbering.dirty = true
		n.dirty = append(n.dirty, q)
	}
}

// giveNumbers numbers the next events of queues and has the numbers stored.
func giveNumbers(s *Scheduler, now time.Time) {
	if s.numbers.underWay || s.lease == "" || now.Sub(s.leaseFrom) >= s.cfg.LeaseUse {
		return
	}
	e := &Number{Lease: s.lease}
	dirty := s.numbers.dirty
	s.numbers.dirty = nil
	for _, q := range dirty {
		q.numbering.dirty = false
		if q.evict.evicting || q.numbering.underWay || now.Before(q.numbering.until) {
			continue
		}
		numberNext(q, now.Add(-s.cfg.Retention))
		s.polls.refill(q)
		s.enqueue(now, q) // what needs no number may be first now
		if unstored(q) {
			q.numbering.underWay = true
			e.Webhooks, e.queues = append(e.Webhooks, q.numbers()), append(e.queues, q)
		}
	}
	if len(e.queues) > 0 {
		s.numbers.underWay = true
		s.emit(e)
	}
}

// numberNext passes over events published before oldest and numbers the next ones.
func numberNext(q *queue, oldest time.Time) {
	for _, from := range []Source{Live, Replay} {
		if !q.passHistory(from, oldest) || numbered(q, from) >= numberAhead/2 {
			continue
		}
		for i, a := range q.pending[from] {
			if i >= numberAhead || a.Published.Before(oldest) {
				break
			}
			if a.Sequence == 0 && !a.Test {
				q.numbering.last++
				a.Sequence = q.numbering.last
			}
		}
	}
}

// numbered counts the first pending events of a source that may start.
func numbered(q *queue, from Source) int {
	for i, a := range q.pending[from] {
		if !a.ready() || i == numberAhead {
			return i
		}
	}
	return len(q.pending[from])
}

// needsNumbers tells whether few events are left that may start, and there are others.
func (q *queue) needsNumbers() bool {
	for _, from := range []Source{Live, Replay} {
		if n := numbered(q, from); n < numberAhead/2 && n < len(q.pending[from]) {
			return true
		}
	}
	return false
}

// unstored tells whether a number is not known to be in the database.
func unstored(q *queue) bool {
	for _, from := range []Source{Live, Replay} {
		if slices.ContainsFunc(q.pending[from], func(a *Attempt) bool { return a.Sequence > 0 && !a.ready() }) {
			return true
		}
	}
	return false
}

// numbers are the numbers as they are to be stored.
func (q *queue) numbers() Numbers {
	n := Numbers{Key: q.key, Last: q.numbering.last}
	byPosition := map[int64]int64{}
	for _, from := range []Source{Live, Replay, Interrupted} {
		maps.Copy(byPosition, q.open[from])
		for _, a := range q.pending[from] {
			if !a.Recorded {
				byPosition[a.Position] = a.Sequence
			}
		}
	}
	for _, p := range slices.Sorted(maps.Keys(byPosition)) {
		if byPosition[p] > 0 {
			n.Positions, n.Sequences = append(n.Positions, p), append(n.Sequences, byPosition[p])
		}
	}
	return n
}

// withdraw takes back the numbers above the highest one that an attempt may have carried,
// or that an event is certain to keep.
func (q *queue) withdraw() {
	carried := q.carried()
	for _, from := range []Source{Live, Replay} {
		for _, a := range q.pending[from] {
			if a.Sequence > carried {
				a.Sequence, a.stored = 0, false
			}
		}
	}
	q.numbering.last = min(q.numbering.last, carried)
}

// carried is the highest number that cannot be given to another event.
func (q *queue) carried() int64 {
	highest := q.numbering.sent
	for i := range q.open {
		for _, n := range q.open[i] {
			highest = max(highest, n)
		}
	}
	for _, a := range q.pending[Interrupted] {
		highest = max(highest, a.Sequence)
	}
	for _, a := range q.pending[Replay] {
		if a.Recorded {
			highest = max(highest, a.Sequence)
		}
	}
	return highest
}

// keepNumbered moves the pending events of a source that keep their number to those that
// were interrupted, so that they are sent whatever becomes of the source. They come before
// those without a number.
func (q *queue) keepNumbered(from Source) {
	q.withdraw()
	q.pending[from] = slices.DeleteFunc(q.pending[from], func(a *Attempt) bool {
		if a.Sequence == 0 || a.Recorded {
			return false
		}
		a.Source = Interrupted
		q.live.sent[a.Position] = struct{}{}
		q.pending[Interrupted] = append(q.pending[Interrupted], a)
		return true
	})
}

// numbersStored lets the events start whose numbers are in the database.
func numbersStored(s *Scheduler, now time.Time, e NumbersStored) {
	s.numbers.underWay = false
	for i, q := range e.Number.queues {
		q.numbering.underWay = false
		switch w := &e.Number.Webhooks[i]; {
		case q.evict.lost:
			continue
		case slices.Contains(e.Keys, w.Key):
			q.numbering.inRow, q.numbering.until = 0, time.Time{}
			markStored(q, w)
		default:
			q.numbering.until = now.Add(min(renumberPause<<min(q.numbering.inRow, 10), maxRenumberPause))
			q.numbering.inRow++
			s.timers.update(now, q)
		}
		s.releaseIfDone(q)
		if !q.evict.evicting {
			s.numbers.mark(q)
		}
		s.enqueue(now, q)
	}
}

// markStored marks the events whose numbers were stored. Those that were withdrawn meanwhile
// have none.
func markStored(q *queue, w *Numbers) {
	for _, from := range []Source{Live, Replay} {
		for _, a := range q.pending[from] {
			if i, found := slices.BinarySearch(w.Positions, a.Position); found && w.Sequences[i] == a.Sequence {
				a.stored = true
			}
		}
	}
}

// ready tells whether an attempt may start: its number is in the database, or it has none.
func (a *Attempt) ready() bool {
	return a.Source == Retry || a.Source == Interrupted || a.Test || a.stored || a.Recorded
}
