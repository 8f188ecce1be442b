package scheduler

import (
	"slices"
	"time"
)

const (
	// ReadAhead is how many messages of a source are read for a webhook at a time.
	ReadAhead = 128

	// maxPollBatch is how many webhooks one poll reads for.
	maxPollBatch = 64
	// maxPolls is how many polls run at once, so that one slow statement (missed
	// events of weeks) does not delay the others.
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

// ended is called for each queue of a poll that was answered.
func (p *polls) ended(now time.Time, q *queue) {
	q.poll.underWay, q.poll.at = false, now
	clear(q.poll.recorded)
	if q.poll.again {
		q.poll.again = false
		p.mark(q)
	}
}

// request says what is to be read for a queue.
func (q *queue) request() PollRequest {
	r := PollRequest{
		Key: q.key, Version: q.endpoint.Version, Events: q.endpoint.Events, After: q.live.scanned,
		LiveLimit:   max(ReadAhead-len(q.pending[Live]), 0),
		RetryLimit:  max(ReadAhead-len(q.pending[Retry]), 0),
		ReplayLimit: max(ReadAhead-len(q.pending[Replay]), 0),
		ReplayAfter: q.replay.scanned, ReplayTo: q.replay.to, queue: q,
	}
	if !q.endpoint.On { // it is held for "Send again" only
		r.LiveLimit = 0
	}
	return r
}

// fill adds what was read.
func (q *queue) fill(a *PollResult, r *PollRequest) {
	for from := range sources {
		for _, one := range a.Attempts[from] {
			if _, sent := q.live.sent[one.Position]; sent && from == Live {
				continue
			}
			if q.holds(one.Position) {
				continue
			}
			one.Source, one.queue = from, q
			q.pending[from] = append(q.pending[from], one)
		}
	}
	q.live.scanned, q.live.visible = max(q.live.scanned, a.LiveTo), a.Visible
	if !q.endpoint.On {
		q.live.visible = q.live.scanned // nothing after it is for a webhook that is off
	}
	if r.ReplayTo > 0 && r.ReplayLimit > 0 {
		q.replay.scanned = max(q.replay.scanned, a.ReplayTo)
		q.unsaved.cursor = true
	}
	q.retry.more = len(a.Attempts[Retry]) >= r.RetryLimit
	if len(q.pending[Live]) == 0 && q.live.scanned < q.live.visible || len(q.pending[Replay]) == 0 && q.replay.scanned < q.replay.to {
		q.poll.again = true // what was read is not for this webhook or was sent before
	}
}

// change gives a queue new settings. It returns false if the webhook was turned off,
// or off and on again, or paused since they were read: then others may have moved its
// cursor, and counted from there, so the queue must be released.
func (q *queue) change(w *Loaded) bool {
	if w.Endpoint.Epoch != q.endpoint.Epoch {
		return false
	}
	if !slices.Equal(w.Endpoint.Events, q.endpoint.Events) || (w.Endpoint.Events == nil) != (q.endpoint.Events == nil) {
		q.unread(Live)
	}
	if w.Endpoint.On && (w.ReplayTo != q.replay.to || w.ReplayAfter < q.replay.saved) {
		q.pending[Replay], q.unsaved.expired[Replay] = nil, 0
		q.replay = replayRange{scanned: w.ReplayAfter, to: w.ReplayTo, saved: w.ReplayAfter}
	}
	moved := w.Endpoint.AddressVersion != q.endpoint.AddressVersion
	if moved || q.endpoint.Paused && w.Endpoint.On {
		q.health = healthState{Health: w.Health} // which another address and resuming clear
	}
	if moved {
		q.pause = pauseState{}
	}
	q.endpoint = w.Endpoint
	q.poll.again = true
	return true
}

// outdated gives a queue that change has refused the settings by which the results of its
// last attempts are judged. If it was only paused, they still count.
func (q *queue) outdated(w *Loaded) {
	if q.endpoint.Epoch < w.Endpoint.Kept {
		q.endpoint = unknownEndpoint()
		return
	}
	q.endpoint, q.health, q.evict.paused = w.Endpoint, healthState{Health: w.Health}, true
}
