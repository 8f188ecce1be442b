package scheduler

import (
	"time"
)

// enqueue lists a queue that may be able to start an attempt.
func (s *Scheduler) enqueue(now time.Time, q *queue) {
	if !s.draining {
		s.starts.enqueue(now, q)
	}
	// Record soon when the queue has reached its bound. One that is failing waits for
	// the next batch, so that it does not cost the others commits.
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
		if a == nil { // all that was read is past its retention, or waits for what is open
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

// notAttempted pauses a webhook, longer each time. Its settings are read again:
// the key that opens its secret may have come.
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
