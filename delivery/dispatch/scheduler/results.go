package scheduler

import (
	"maps"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
)

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
			record.Changes = append(record.Changes, c)
			record.queues = append(record.queues, c.queue)
		}
		return !c.queue.apart
	})
	r.underWay = record
	return record
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
	for _, c := range r.Changes {
		s.emit(ChangeHealth{c})
	}
	s.released(r.evicted)
	if r.Apart {
		joinAgain(s, now, r)
	}
}

// Split returns the parts of a record, one for each webhook.
func (r *Record) Split() []*Record {
	byKey := map[Key]*Record{}
	var parts []*Record
	for _, q := range r.queues {
		if byKey[q.key] == nil {
			p := &Record{Lease: r.Lease, Apart: true, queues: []*queue{q}}
			byKey[q.key], parts = p, append(parts, p)
		}
	}
	for i, a := range r.attempts {
		p := byKey[a.queue.key]
		p.attempts, p.Attempts = append(p.attempts, a), append(p.Attempts, r.Attempts[i])
	}
	for i, q := range r.evicted {
		p := byKey[q.key]
		p.evicted, p.Releases = append(p.evicted, q), append(p.Releases, r.Releases[i])
	}
	for _, c := range r.Changes {
		p := byKey[c.Key]
		p.Changes = append(p.Changes, c)
	}
	for _, c := range r.Cursors {
		p := byKey[c.Key]
		p.Cursors = append(p.Cursors, c)
	}
	for _, h := range r.Health {
		p := byKey[h.Key]
		p.Health = append(p.Health, h)
	}
	return parts
}

// Empty reports whether a record has no webhooks.
func (r *Record) Empty() bool { return len(r.queues) == 0 }

// Key returns the webhook of a part of a record.
func (r *Record) Key() Key { return r.queues[0].key }

// without removes from a record what its parts contain.
func (r *Record) without(parts []*Record) {
	for _, p := range parts {
		q := p.queues[0]
		r.attempts = slices.DeleteFunc(r.attempts, func(a *Attempt) bool { return a.queue == q })
		r.Changes = slices.DeleteFunc(r.Changes, func(c *HealthChange) bool { return c.queue == q })
		r.evicted = slices.DeleteFunc(r.evicted, func(e *queue) bool { return e == q })
	}
}

// setApart has a part of a record written on its own.
func setApart(s *Scheduler, part *Record) {
	q := part.queues[0]
	q.apart = true
	s.apart[q] = struct{}{}
	s.emit(part)
}

// joinAgain undoes setApart when the part is written.
func joinAgain(s *Scheduler, now time.Time, part *Record) {
	q := part.queues[0]
	q.apart = false
	delete(s.apart, q)
	s.results.returned(q, now)
	s.releaseIfDone(q)
}

// keepApart removes webhooks whose part is being written apart from the next record, and keeps
// their results and releases for later.
func (r *results) keepApart() {
	r.attempts = slices.DeleteFunc(r.attempts, func(a *Attempt) bool {
		if a.queue.apart {
			r.apart = append(r.apart, a)
		}
		return a.queue.apart
	})
	// If a release overtook the part, another process would get the webhook before the part is
	// stored.
	r.evicted = slices.DeleteFunc(r.evicted, func(q *queue) bool {
		if q.apart {
			r.evictedApart = append(r.evictedApart, q)
		}
		return q.apart
	})
	// Their cursors are saved a second later, if that is still needed.
	r.save = slices.DeleteFunc(r.save, func(q *queue) bool { return q.apart })
}

// returned undoes keepApart for one queue.
func (r *results) returned(q *queue, now time.Time) {
	r.apart = slices.DeleteFunc(r.apart, func(a *Attempt) bool {
		if a.queue == q {
			r.add(a, now)
		}
		return a.queue == q
	})
	if at := slices.Index(r.evictedApart, q); at >= 0 {
		r.evictedApart = slices.Delete(r.evictedApart, at, at+1)
		r.evicted = append(r.evicted, q)
	}
}
