package scheduler

import (
	"container/heap"
	"time"
)

// timer wakes a queue. Each queue has one.
type timer struct {
	at    time.Time // zero: it is not set
	index int       // in the heap
}

// timers is a heap of the queues whose timer is set, earliest first.
type timers []*queue

// set sets, moves or, with the zero time, clears a queue's timer.
func (t *timers) set(q *queue, at time.Time) {
	was := q.timer.at
	q.timer.at = at
	switch {
	case was.IsZero() && at.IsZero():
	case was.IsZero():
		heap.Push(t, q)
	case at.IsZero():
		q.timer.at = was // the heap's order must hold while it is removed
		heap.Remove(t, q.timer.index)
		q.timer.at = at
	default:
		heap.Fix(t, q.timer.index)
	}
}

// update sets a queue's timer to the end of its pause or the time of its next retry,
// whichever comes first.
func (t *timers) update(now time.Time, q *queue) {
	var first time.Time
	for _, at := range []time.Time{q.pause.until, q.retry.next} {
		if at.After(now) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	t.set(q, first)
}

// next returns the time of the first timer; zero: none is set.
func (t timers) next() time.Time {
	if len(t) == 0 {
		return time.Time{}
	}
	return t[0].timer.at
}

// take clears the first timer and returns its queue, if its time has come.
func (t *timers) take(now time.Time) *queue {
	if len(*t) == 0 || now.Before((*t)[0].timer.at) {
		return nil
	}
	q := (*t)[0]
	t.set(q, time.Time{})
	return q
}

// Len implements heap.Interface.
func (t timers) Len() int { return len(t) }

// Less implements heap.Interface.
func (t timers) Less(i, j int) bool { return t[i].timer.at.Before(t[j].timer.at) }

// Swap implements heap.Interface.
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].timer.index, t[j].timer.index = i, j
}

// Push implements heap.Interface.
func (t *timers) Push(x any) {
	q, ok := x.(*queue)
	if !ok {
		return // cannot happen: only queues are pushed
	}
	q.timer.index = len(*t)
	*t = append(*t, q)
}

// Pop implements heap.Interface.
func (t *timers) Pop() any {
	last := len(*t) - 1
	q := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	return q
}
