package scheduler

import (
	"maps"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
)

// Results are batched because every commit delays the whole server. A batch is
// written after linger, or when it has batchSize results. When a webhook needs its
// places to send more, the batch is written after urgentLinger, and at once if few
// attempts are under way, because then few results would join it.
const (
	linger       = 10 * time.Millisecond
	urgentLinger = 3 * time.Millisecond
	batchSize    = 16
	manyInFlight = 8

	// maxBatch is the largest number of attempts in one record.
	maxBatch = 500
)

// results are what is to be recorded.
type results struct {
	attempts []*Attempt
	first    time.Time // when the oldest of them came
	urgent   bool
	apart    []*Attempt // of webhooks that are written apart; to be recorded after that

	save         []*queue // cursors to be stored
	evicted      []*queue // to be released
	evictedApart []*queue // of which something is written apart; to be released after that
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

// due is when the next record is to be written; zero: there is nothing to
// record, or a record is under way.
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
	// Turning it off cancels what is pending. If somebody pauses it first, that goes on.
	if (e.Paused || q.health.turningOff) && !attempted.Success {
		a.state, a.next = p.DecideUncounted(attempted)
		return
	}
	// What the address before came to says nothing about the present one.
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
