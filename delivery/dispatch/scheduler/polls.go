package scheduler

import (
	"time"
)

const (
	// ReadAhead is how many messages of a source are read for a webhook at a time.
	ReadAhead = 128

	// maxPollBatch is how many webhooks one poll reads for.
	maxPollBatch = 64
	// maxPolls is how many polls run at once, so that one slow statement (such as weeks of missed
	// events) does not delay the others.
	maxPolls = 2
)

// polls holds the queues that wait for a poll.
type polls struct {
	dirty    []*queue
	underWay int
}

// mark adds a queue to those that wait for a poll.
func (p *polls) mark(q *queue) {
	switch {
	case q.evict.evicting:
		q.evict.changed = true
	case q.poll.underWay:
		q.poll.again = true
	case !q.poll.dirty:
		q.poll.dirty = true
		p.dirty = append(p.dirty, q)
	}
}

// refill adds a queue when few messages are left and the database has more.
func (p *polls) refill(q *queue) {
	if !q.evict.evicting && !q.health.turningOff && q.needsMore() {
		p.mark(q)
	}
}

// take returns the next poll to make; nil: none now.
func (p *polls) take() *Poll {
	poll := &Poll{}
	for p.underWay < maxPolls && len(p.dirty) > 0 && len(poll.Requests) < maxPollBatch {
		q := pop(&p.dirty)
		q.poll.dirty = false
		if q.evict.evicting {
			q.evict.changed = true
			continue
		}
		q.poll.underWay = true
		poll.Requests = append(poll.Requests, q.request())
	}
	if len(poll.Requests) == 0 {
		return nil
	}
	p.underWay++
	return poll
}

// ended is called for each queue of a poll that has ended.
func (p *polls) ended(now time.Time, q *queue) {
	q.poll.underWay, q.poll.at = false, now
	clear(q.poll.recorded)
	if q.poll.again {
		q.poll.again = false
		p.mark(q)
	}
}

// changed marks the held webhooks of workspaces dirty, and claims others of these workspaces, which
// may not be held here.
func (s *Scheduler) changed(e Changed) {
	if e.All {
		for _, list := range s.byWorkspace {
			for _, q := range list {
				s.polls.mark(q)
			}
		}
	}
	for _, w := range e.WorkspaceIDs {
		for _, q := range s.byWorkspace[w] {
			s.polls.mark(q)
		}
		s.claims.addWorkspace(w)
	}
}

// found claims the webhooks that a sweep found. One that is held here may have
// missed a notification.
func (s *Scheduler) found(now time.Time, list []Candidate) {
	s.unclaimed = 0
	for _, c := range list {
		q := s.queues[c.Key]
		switch {
		case q == nil:
			s.claims.addKey(c.Key)
			s.unclaimed++
		case c.Visible > q.live.visible || now.Sub(q.poll.at) >= rereadInterval:
			s.polls.mark(q)
		}
	}
}

// retryAt schedules a poll of the queue, unless an earlier one is scheduled.
func (s *Scheduler) retryAt(now time.Time, q *queue, at time.Time) {
	if at.IsZero() || q.retry.next.After(now) && !at.Before(q.retry.next) {
		return
	}
	q.retry.next = at
	if !at.After(now) {
		s.polls.mark(q)
	}
	s.timers.update(now, q)
}

func (s *Scheduler) polled(now time.Time, e Polled) {
	s.polls.underWay--
	for i := range e.Poll.Requests {
		r, a := &e.Poll.Requests[i], &e.Results[i]
		q := r.queue
		switch changed := e.Changed[r.Key]; {
		case q.evict.lost:
		case !a.Found:
			s.evict(q) // deleted
		case changed != nil:
			moved := q.endpoint.AddressVersion != changed.Endpoint.AddressVersion
			if !q.change(changed) {
				q.outdated(changed)
				s.evict(q)
				q.evict.changed = true
			} else if moved && s.starts.throttle.attempted(q, false) {
				s.starts.requeue(now, q)
			}
		case !q.evict.evicting:
			q.fill(a, r)
			// A retry that was recorded during the poll is not in its answer, so an earlier time
			// that is still to come stays.
			s.retryAt(now, q, a.NextAttempt)
		}
		s.polls.ended(now, q)
		s.releaseIfDone(q)
		s.enqueue(now, q)
	}
}

func (s *Scheduler) pollFailed(now time.Time, poll *Poll) {
	s.polls.underWay--
	for i := range poll.Requests {
		q := poll.Requests[i].queue
		s.polls.ended(now, q)
		s.releaseIfDone(q)
		if !q.evict.evicting {
			s.polls.mark(q)
		}
	}
}
