package scenario

// event is one planned step. Steps at the same moment run in the order in which they
// were planned, by seq; the order does not depend on the shape of the heap.
type event struct {
	at  int64
	seq uint64
	run func()
}

func (e event) before(o event) bool {
	return e.at < o.at || e.at == o.at && e.seq < o.seq
}

// queue is a binary heap of events, earliest first. container/heap would allocate for
// every event, which it takes as an interface.
type queue struct {
	heap []event
	seq  uint64
}

func (q *queue) len() int { return len(q.heap) }

// push plans run for the moment at.
func (q *queue) push(at int64, run func()) {
	q.seq++
	e := event{at, q.seq, run}
	q.heap = append(q.heap, e)
	i := len(q.heap) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(q.heap[parent]) {
			break
		}
		q.heap[i] = q.heap[parent]
		i = parent
	}
	q.heap[i] = e
}

// next returns the moment of the earliest event.
func (q *queue) next() (at int64, ok bool) {
	if len(q.heap) == 0 {
		return 0, false
	}
	return q.heap[0].at, true
}

// pop removes and returns the earliest event; the queue must not be empty.
func (q *queue) pop() event {
	top := q.heap[0]
	n := len(q.heap) - 1
	e := q.heap[n]
	q.heap[n] = event{} // so that the step's memory can be freed
	q.heap = q.heap[:n]
	if n == 0 {
		return top
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= n {
			break
		}
		if child+1 < n && q.heap[child+1].before(q.heap[child]) {
			child++
		}
		if !q.heap[child].before(e) {
			break
		}
		q.heap[i] = q.heap[child]
		i = child
	}
	q.heap[i] = e
	return top
}

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
