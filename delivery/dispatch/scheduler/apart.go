package scheduler

import (
	"slices"
	"time"
)

// A webhook of which another transaction has locked a row (a person at psql, say)
// must not hold up the others. What is to be recorded of it is written apart from
// the rest, and nothing further of it is recorded before that is done. The bound of
// attempts that are not recorded stops it meanwhile.

// Split returns the parts of a record, each of one webhook.
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
	for _, c := range r.changes {
		p := byKey[c.queue.key]
		p.changes = append(p.changes, c)
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

// Empty reports whether a record is of no webhook.
func (r *Record) Empty() bool { return len(r.queues) == 0 }

// Key is the webhook that a part of a record is of.
func (r *Record) Key() Key { return r.queues[0].key }

// without takes the parts out of a record.
func (r *Record) without(parts []*Record) {
	for _, p := range parts {
		q := p.queues[0]
		r.attempts = slices.DeleteFunc(r.attempts, func(a *Attempt) bool { return a.queue == q })
		r.changes = slices.DeleteFunc(r.changes, func(c *HealthChange) bool { return c.queue == q })
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

// joinAgain ends that: the part is written.
func joinAgain(s *Scheduler, now time.Time, part *Record) {
	q := part.queues[0]
	q.apart = false
	delete(s.apart, q)
	s.results.returned(q, now)
	s.releaseIfDone(q)
}

// keepApart moves what is to be recorded of webhooks that are written apart out of
// what is recorded next.
func (r *results) keepApart() {
	r.attempts = slices.DeleteFunc(r.attempts, func(a *Attempt) bool {
		if a.queue.apart {
			r.apart = append(r.apart, a)
		}
		return a.queue.apart
	})
	// A release that overtook the rest would give the webhook to another process without
	// what is counted there.
	r.evicted = slices.DeleteFunc(r.evicted, func(q *queue) bool {
		if q.apart {
			r.evictedApart = append(r.evictedApart, q)
		}
		return q.apart
	})
	// They are saved a second later, if they still have to be.
	r.save = slices.DeleteFunc(r.save, func(q *queue) bool { return q.apart })
}

// returned undoes keepApart.
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
