package scheduler

import (
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
)

// starts are the queues that may start an attempt, and those that are held back.
type starts struct {
	bound, limit int
	startable    []*queue
	overLimit    []*queue // could start if the process had not reached its limit
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

// ended is called after an attempt has ended. It lists again some of the queues that met the
// process's limit.
func (s *starts) ended(now time.Time) {
	s.inFlight--
	for range min(len(s.overLimit), 8) {
		s.requeue(now, pop(&s.overLimit))
	}
}

// clear forgets all queues; attempts in flight still count.
func (s *starts) clear() { s.startable, s.overLimit, s.throttle.queues = nil, nil, nil }

// enqueue lists a queue that may be able to start an attempt.
func (s *Scheduler) enqueue(now time.Time, q *queue) {
	if !s.draining {
		s.starts.enqueue(now, q)
	}
	// Record soon when the queue has reached its bound. A failing queue waits for the next batch,
	// so that it does not cause extra commits.
	if q.unrecorded >= s.cfg.Bound && !q.apart && q.health.FailingSince.IsZero() && q.waiting() > 0 {
		s.results.urgent = true
	}
}

// startAttempts starts attempts as long as there are queues that may.
func (s *Scheduler) startAttempts(now time.Time) {
	if now.Sub(s.leaseFrom) >= s.cfg.LeaseUse || s.lease == "" {
		return // other processes may take over before an attempt would end
	}
	for q := s.starts.next(now, len(s.queues)); q != nil; q = s.starts.next(now, len(s.queues)) {
		a := q.start(now.Add(-s.cfg.Retention))
		q.evict.lastUsed = now
		s.polls.refill(q)
		if a == nil { // everything read is past its retention, or waits for an open attempt
			s.starts.inFlight--
			continue
		}
		s.emit(Start{a})
		s.enqueue(now, q)
	}
}

// attempted decides what follows an attempt and has it recorded.
func (s *Scheduler) attempted(now time.Time, e Attempted) {
	a, q := e.Attempt, e.Attempt.queue
	a.result = e.Result
	s.starts.ended(now)
	q.inFlight--
	q.pause.inRow = 0
	if q.evict.lost {
		q.unrecorded--
		return
	}
	if a.CreatedAt.IsZero() {
		a.CreatedAt = a.result.At
	}
	s.results.judge(a, s.cfg.Policy)
	s.results.add(a, now)
	if s.starts.throttle.attempted(q, a.result.Costly()) {
		s.starts.requeue(now, q)
	}
	s.enqueue(now, q)
}

// notAttempted pauses a webhook, longer each time. Its settings are read again, because the key
// that opens its secret may be there by now.
func (s *Scheduler) notAttempted(now time.Time, e NotAttempted) {
	a, q := e.Attempt, e.Attempt.queue
	s.starts.ended(now)
	q.putBack(a)
	pause := min(time.Second<<min(q.pause.inRow, 6), time.Minute)
	q.pause = pauseState{until: now.Add(pause), inRow: q.pause.inRow + 1}
	if q.endpoint == a.Endpoint {
		outdated := *q.endpoint
		outdated.Version = -1
		q.endpoint = &outdated
	}
	s.timers.update(now, q)
	s.releaseIfDone(q)
	s.emit(Paused{Attempt: a, Err: e.Err, Pause: pause})
}
