package scenario

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// sim is what a Generator and a Living share: an agency, its simulated time, and
// the entries that it writes. The steps of its stories are methods of what they
// are about: a client, a bill, a timeEntry and so on. It belongs to one goroutine.
type sim struct {
	timeline
	output
	agency    *agency
	active    []*engagement // whose parties have joined and not left
	anomalies anomalies

	workEntries int64 // lines about time entries
	inReview    int64 // time entries that wait for their approval
}

func newSim(workspace string, a *agency, rng *rand.Rand) *sim {
	return &sim{timeline: timeline{rng: rng}, output: output{workspace: workspace, eventID: "evt_h"}, agency: a}
}

// emit writes the object under construction as a line, now and then followed by
// an anomalous one.
func (s *sim) emit(typ string) {
	s.write(typ, s.obj.finish())
	if s.chance(anomaliesPerMille) {
		s.writeAnomaly()
	}
}

func (s *sim) write(typ string, data []byte) {
	var createdAt time.Time
	if s.history {
		createdAt = time.UnixMilli(s.now).UTC()
	}
	s.append(typ, data, createdAt)
}

// activate begins engagements whose parties have both joined, and ends the ones of
// clients who have left.
func (s *sim) activate() {
	s.active = s.active[:0]
	for _, e := range s.agency.engagements {
		if e.client.joined && !e.client.left && e.contractor.joined {
			s.active = append(s.active, e)
		}
	}
}

// closePeriod closes a period for one client, or (nil) for the workspace.
func (s *sim) closePeriod(p period, c *client) {
	o := s.obj.reset()
	o.text("period", p.key)
	if c != nil {
		o.text("client_id", c.id)
	}
	s.emit("period.closed")
}

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

// anomaliesPerMille is how many of 1000 lines have an anomalous one after them.
const anomaliesPerMille = 4

// anomalies are entries that cannot have their effect, as real producers send
// them.
type anomalies struct {
	payment []byte // the data of the last payment; a copy, because lines belong to the caller
	written int64
}

// keepPayment remembers the fields of a payment, which lack the closing brace.
func (a *anomalies) keepPayment(fields []byte) {
	a.payment = append(append(a.payment[:0], fields...), '}')
}

// writeAnomaly writes a line about an object or document that does not exist, or
// one that repeats a payment.
func (s *sim) writeAnomaly() {
	s.anomalies.written++
	r := s.rng.IntN(4)
	if r == 0 && len(s.anomalies.payment) > 0 {
		s.write("payment.confirmed", s.anomalies.payment)
		return
	}
	o := s.obj.reset()
	c := s.agency.clients[0]
	switch r {
	case 1:
		o.text("invoice_id", s.id("in_x", &s.ids.anomaly))
		o.text("client_id", c.id)
		s.write("invoice.sent", o.finish())
	case 2:
		o.text("charge_id", s.id("ch_x", &s.ids.anomaly))
		o.text("client_id", c.id)
		s.write("charge.deleted", o.finish())
	default:
		o.text("time_entry_id", s.id("te_x", &s.ids.anomaly))
		s.write("time_entry.approved", o.finish())
	}
}
