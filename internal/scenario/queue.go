package scenario

import "container/heap"

// event is one planned step. Steps at the same moment run in the order in which they
// were planned, by seq; the order does not depend on the shape of the heap.
type event struct {
	at  int64
	seq uint64
	run func()
}

// events is a heap of events, earliest first.
type events []event

func (e events) Len() int { return len(e) }

func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}

func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *events) Push(planned any) { *e = append(*e, planned.(event)) }

// Pop implements heap.Interface.
func (e *events) Pop() any {
	last := len(*e) - 1
	taken := (*e)[last]
	(*e)[last] = event{} // so that the step's memory can be freed
	*e = (*e)[:last]
	return taken
}

// queue holds the planned steps.
type queue struct {
	heap events
	seq  uint64
}

func (q *queue) len() int { return len(q.heap) }

// push plans run for the moment at.
func (q *queue) push(at int64, run func()) {
	q.seq++
	heap.Push(&q.heap, event{at, q.seq, run})
}

// next returns the moment of the earliest event.
func (q *queue) next() (at int64, ok bool) {
	if len(q.heap) == 0 {
		return 0, false
	}
	return q.heap[0].at, true
}

// pop removes and returns the earliest event; the queue must not be empty.
func (q *queue) pop() event { return heap.Pop(&q.heap).(event) }

// due counts the events before the moment limit.
func (q *queue) due(limit int64) int {
	n := 0
	for i := range q.heap {
		if q.heap[i].at < limit {
			n++
		}
	}
	return n
}
