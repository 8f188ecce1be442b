package scheduler

import (
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
)

// starts are the queues that may start an attempt, and those that are held back.
type starts struct {
	bound, limit int
	startable    []*queue
	overLimit    []*queue // could start, if the process had not reached its limit
	throttle     throttle
	inFlight     int // attempts of the process
}

// enqueue lists a queue, if it may start an attempt.
func (s *starts) enqueue(now time.Time, q *queue) {
	if !q.listed && q.mayStart(s.bound, now) {
		q.listed = true
		s.startable = append(s.startable, q)
	}
}

// requeue lists a queue that was held back.
func (s *starts) requeue(now time.Time, q *queue) {
	q.listed = false
	s.enqueue(now, q)
}

// next takes the next queue that may start an attempt: each in turn, within its
// own bound and its share of the process. It returns nil when there is none.
func (s *starts) next(now time.Time, webhooks int) *queue {
	for len(s.startable) > 0 {
		q := pop(&s.startable)
		q.listed = false
		if !q.mayStart(s.bound, now) {
			continue
		}
		load := policy.Load{Own: q.inFlight, Bound: s.bound, Total: s.inFlight, Limit: s.limit, Webhooks: webhooks}
		switch {
		case !policy.MayStart(load):
			q.listed = true
			s.overLimit = append(s.overLimit, q)
		case s.throttle.waitForToken(q, now):
			q.listed = true
		default:
			s.inFlight++
			return q
		}
	}
	return nil
}

// ended lists some queues that met the process's limit, after an attempt has
// ended.
func (s *starts) ended(now time.Time) {
	s.inFlight--
	for range min(len(s.overLimit), 8) {
		s.requeue(now, pop(&s.overLimit))
	}
}

// clear forgets all queues; attempts under way still count.
func (s *starts) clear() { s.startable, s.overLimit, s.throttle.queues = nil, nil, nil }
