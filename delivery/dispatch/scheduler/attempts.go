package scheduler

import (
	"maps"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
)

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

// unknownEndpoint returns an Endpoint for unknown settings. Its epoch and version match no row, so
// no cursor moves under it.
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

// evict starts the release of a webhook.
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

// releaseIfDone releases an evicting webhook when it has nothing open.
func (s *Scheduler) releaseIfDone(q *queue) {
	if q.evict.evicting && q.unrecorded == 0 && !q.apart && !q.poll.underWay && s.queues[q.key] == q {
		forget(s, q)
		s.results.evicted = append(s.results.evicted, q)
	}
}

// forget removes a queue from the held ones. It stays in byWorkspace until its release is recorded:
// nobody else can claim it before that, so an event that comes meanwhile is marked here.
func forget(s *Scheduler, q *queue) {
	delete(s.queues, q.key)
	delete(s.claims.debounced, q.key.WorkspaceID) // there may be something to claim again
	s.timers.set(q, time.Time{})
	if s.starts.throttle.remove(q) {
		q.listed = false
	}
}

// recorded frees the slots of attempts whose results are stored, and finishes releases.
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

// released claims again the webhooks that got work meanwhile, and tells other processes which
// webhooks are left to them.
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

// Results are batched because every commit delays the whole server. A batch is written after
// linger, or when it has batchSize results. If a webhook needs its slots to send more, the batch is
// written after urgentLinger, or at once if few attempts are in flight, because then few results
// would join it.
const (
	linger       = 10 * time.Millisecond
	urgentLinger = 3 * time.Millisecond
	batchSize    = 16
	manyInFlight = 8

	// maxBatch is the largest number of attempts in one record.
	maxBatch = 500
)

// results holds what is to be recorded.
type results struct {
	attempts []*Attempt
	first    time.Time // when the oldest of them came
	urgent   bool
	apart    []*Attempt // of webhooks that are being written apart; to be recorded after that

	save         []*queue // cursors to be stored
	evicted      []*queue // to be released
	evictedApart []*queue // of webhooks that are being written apart; to be released after that
	changes      []*HealthChange

	underWay *Record
}

func (r *results) add(a *Attempt, now time.Time) {
	if a.queue.apart {
		r.apart = append(r.apart, a)
		return
	}
	if len(r.attempts) == 0 {
		r.first = now
	}
	r.attempts = append(r.attempts, a)
}

// due returns when the next record is to be written; zero: there is nothing to record, or a record
// is being written.
func (r *results) due(now time.Time, inFlight int, draining bool) time.Time {
	switch {
	case r.underWay != nil:
		return time.Time{}
	case len(r.attempts) == 0:
		if len(r.save)+len(r.evicted) > 0 {
			return now
		}
		return time.Time{}
	case draining || len(r.attempts) >= batchSize:
		return now
	case !r.urgent:
		return r.first.Add(linger)
	case inFlight >= manyInFlight:
		return r.first.Add(urgentLinger)
	}
	return now
}

// take returns the next record.
func (r *results) take(lease string, now time.Time) *Record {
	record := &Record{Lease: lease}
	n := min(len(r.attempts), maxBatch)
	for _, a := range r.attempts[:n] {
		record.addAttempt(a)
	}
	r.attempts = slices.Delete(r.attempts, 0, n)
	r.first, r.urgent = now, false
	for _, q := range r.save {
		record.addCursor(q)
	}
	for _, q := range r.evicted {
		record.Releases = append(record.Releases, q.takeCursor())
		record.queues = append(record.queues, q)
	}
	record.evicted = r.evicted
	r.save, r.evicted = nil, nil
	r.changes = slices.DeleteFunc(r.changes, func(c *HealthChange) bool {
		if !c.queue.apart {
			record.changes = append(record.changes, c)
			record.queues = append(record.queues, c.queue)
		}
		return !c.queue.apart
	})
	r.underWay = record
	return record
}

func (r *Record) addAttempt(a *Attempt) {
	q := a.queue
	r.attempts, r.queues = append(r.attempts, a), append(r.queues, q)
	r.Attempts = append(r.Attempts, AttemptRecord{
		Key: q.key, Position: a.Position, CreatedAt: a.CreatedAt, EventID: a.EventID, EventType: a.EventType,
		Number: a.Number(), Before: a.Before, State: a.state, Next: a.due(), Epoch: a.Endpoint.pendingEpoch(), Result: a.result,
		AddressVersion: a.Endpoint.AddressVersion,
	})
	if q.health.unsaved {
		q.health.unsaved = false
		r.Health = append(r.Health, HealthRecord{Key: q.key, Epoch: q.endpoint.Epoch, Health: q.health.Health, AddressVersion: q.endpoint.AddressVersion})
	}
}

// addCursor moves the stored cursor if it lags. Attempts of the same record are
// not done yet, so the stored cursor stays before them. A process that takes over
// finds them in the history of deliveries.
func (r *Record) addCursor(q *queue) {
	c := q.takeCursor()
	if c.Position > q.live.saved || c.Replayed > q.replay.saved {
		r.Cursors, r.queues = append(r.Cursors, c), append(r.queues, q)
		q.live.saved, q.replay.saved = c.Position, c.Replayed
		maps.DeleteFunc(q.live.sent, func(p int64, _ struct{}) bool { return p <= c.Position })
		if q.replay.to > 0 && c.Replayed >= q.replay.to {
			q.replay = replayRange{}
		}
	}
	q.unsaved.cursor = false
}

// judge decides what follows an attempt to a webhook that is held.
func (r *results) judge(a *Attempt, p policy.Policy) {
	q := a.queue
	attempted := policy.Attempted{
		N: a.Number(), Before: a.Before, Once: a.Once, Success: a.result.Success(), Ended: a.result.Ended().Truncate(time.Millisecond),
		Event: a.Position, Gone: a.result.Gone(), NotBefore: a.result.RetryAfter,
	}
	e := q.endpoint
	if !e.On && !e.Paused || a.Endpoint.Epoch < e.Kept {
		a.state = p.DecideOff(attempted)
		return
	}
	// Turning the webhook off cancels pending deliveries. If somebody pauses it first, they go on.
	if (e.Paused || q.health.turningOff) && !attempted.Success {
		a.state, a.next = p.DecideUncounted(attempted)
		return
	}
	// A result from the old address says nothing about the present one.
	if a.toOtherAddress() {
		if a.state = policy.Succeeded; !attempted.Success {
			a.state, a.next = p.DecideUncounted(attempted)
		}
		return
	}
	v := p.Decide(q.health.Health, attempted)
	a.state, a.next = v.State, v.Next
	if !q.health.FailingSince.IsZero() || !v.Health.FailingSince.IsZero() {
		q.health.unsaved = true
	}
	q.health.Health = v.Health
	q.health.turningOff = v.Change.TurnsOff()
	if v.Change != policy.NoChange {
		r.changes = append(r.changes, &HealthChange{
			Key: q.key, Endpoint: q.endpoint, Change: v.Change, Since: v.Health.FailingSince,
			At: a.result.Ended(), Reason: a.result.Error, Answer: a.result.Answer, queue: q,
		})
	}
}
