package scheduler

import (
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
)

// changed marks the webhooks of workspaces dirty. Others of these workspaces may
// not be held here, so they are claimed.
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
			// A time that is still to come stays: a retry that was recorded during
			// the poll is not in its answer.
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

// unknownEndpoint stands for settings that are not known. Its epoch and version
// match no row, so no cursor is moved under it.
func unknownEndpoint() *Endpoint { return &Endpoint{Epoch: -1, Version: -1} }

func (s *Scheduler) claimed(now time.Time, e Claimed) {
	if e.More {
		s.claims.failed(e.Claim)
	} else {
		s.claims.done(e.Claim, e.Endpoints, now)
	}
	if e.Claim.Lease != s.lease {
		return // held under a lease that is over, so by nobody
	}
	for i := range e.Endpoints {
		w := &e.Endpoints[i]
		if s.queues[w.Key] != nil {
			continue // cannot happen: what is held is not free
		}
		q := newQueue(w, now)
		s.queues[w.Key] = q
		s.byWorkspace[w.Key.WorkspaceID] = append(s.byWorkspace[w.Key.WorkspaceID], q)
		s.polls.mark(q)
		if s.draining {
			s.evict(q)
		}
	}
}

// evict starts giving a webhook back.
func (s *Scheduler) evict(q *queue) {
	if q.evict.evicting {
		return
	}
	q.evict.evicting = true
	for from := range sources {
		q.unread(from)
	}
	s.releaseIfDone(q)
}

// releaseIfDone releases a webhook that is evicting when nothing of it is open.
func (s *Scheduler) releaseIfDone(q *queue) {
	if q.evict.evicting && q.unrecorded == 0 && !q.apart && !q.poll.underWay && s.queues[q.key] == q {
		forget(s, q)
		s.results.evicted = append(s.results.evicted, q)
	}
}

// forget removes a queue from what is held. It stays in byWorkspace until its release
// is recorded: until then nobody else can claim it, so an event that comes meanwhile
// is marked here.
func forget(s *Scheduler, q *queue) {
	delete(s.queues, q.key)
	delete(s.claims.debounced, q.key.WorkspaceID) // there may be something to claim again
	s.timers.set(q, time.Time{})
	if s.starts.throttle.remove(q) {
		q.listed = false
	}
}

// recorded frees the places of attempts whose results are stored, and finishes
// releases.
func (s *Scheduler) recorded(now time.Time, e Recorded) {
	r := e.Record
	if !r.Apart {
		s.results.underWay = nil
	}
	r.without(e.Locked)
	for _, part := range e.Locked {
		setApart(s, part)
	}
	s.results.keepApart()
	for _, a := range r.attempts {
		q := a.queue
		q.recorded(a)
		if q.evict.lost {
			continue
		}
		if a.state == policy.Pending && !q.evict.evicting {
			s.retryAt(now, q, a.due())
		}
		s.polls.refill(q)
		s.enqueue(now, q)
		s.releaseIfDone(q)
	}
	for _, c := range r.changes {
		s.emit(ChangeHealth{c})
	}
	s.released(r.evicted)
	if r.Apart {
		joinAgain(s, now, r)
	}
}

// released claims webhooks again that have something to do, and tells others of
// those that are left to them.
func (s *Scheduler) released(list []*queue) {
	var notify []string
	for _, q := range list {
		w := q.key.WorkspaceID
		s.byWorkspace[w] = slices.DeleteFunc(s.byWorkspace[w], func(other *queue) bool { return other == q })
		if len(s.byWorkspace[w]) == 0 {
			delete(s.byWorkspace, w)
		}
		held := s.queues[q.key]
		switch {
		case q.evict.lost || !q.evict.changed:
		case held != nil:
			s.polls.mark(held)
		default:
			s.claims.addKey(q.key)
		}
		if q.evict.rebalanced && !q.evict.lost {
			notify = append(notify, w)
		}
	}
	if len(notify) > 0 {
		s.emit(Notify{notify})
	}
}
