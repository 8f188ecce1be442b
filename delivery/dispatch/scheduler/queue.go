package scheduler

import (
	"container/heap"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
)

// queue is a webhook that this process holds: what was read for it, what is in flight, and how far
// it has come.
type queue struct {
	key      Key
	endpoint *Endpoint
	health   healthState

	pending [sources][]*Attempt
	turn    Source // the source whose turn it is next
	// open are the attempts that are started and not recorded, by position.
	open       [sources]map[int64]struct{}
	inFlight   int // open attempts that are being made
	unrecorded int // all open attempts

	live   liveRange
	replay replayRange
	retry  retryState
	poll   pollState
	evict  evictState
	costly costlyState

	apart   bool // a record of it is being written apart, and nothing else of it is recorded
	listed  bool // in one of the scheduler's lists of queues that may start something
	pause   pauseState
	timer   timer
	unsaved unsaved
}

// healthState is the webhook's health.
type healthState struct {
	policy.Health
	unsaved    bool // not stored yet
	turningOff bool
}

// pauseState tracks attempts that could not be made.
type pauseState struct {
	until time.Time
	inRow int // pauses without an attempt between them
}

// unsaved holds what is stored once a second, if it changed.
type unsaved struct {
	cursor bool // results were recorded since the cursor was stored
	// expired counts events that were past their retention, by source. All of them are
	// before the cursor of the source.
	expired [sources]int64
}

// liveRange is the part of the log from which new events are sent.
type liveRange struct {
	scanned int64 // the log was read up to here
	visible int64 // the workspace's visible position, as last read
	saved   int64 // what the stored cursor says
	// sent holds positions after saved that another process had sent before.
	sent map[int64]struct{}
	// passed is the highest position of a recorded first attempt.
	passed int64
}

// replayRange is the part of the log whose missed events are being sent.
type replayRange struct {
	scanned int64 // read up to here
	to      int64 // last position; 0: there are no missed events
	saved   int64
}

// retryState tracks deliveries that wait in the database.
type retryState struct {
	next time.Time // when the scheduler looks for the next one
	more bool      // more are due than were read
}

// pollState tracks reading for a queue.
type pollState struct {
	dirty    bool // waits for a poll
	underWay bool
	again    bool // became dirty during the poll
	at       time.Time
	// recorded holds positions that were recorded during the poll, which may still return them.
	recorded map[int64]struct{}
}

// evictState tracks the release of a webhook.
type evictState struct {
	lastUsed time.Time // it is released when it has been idle for Config.Idle since then

	evicting   bool // start nothing more; release when everything is recorded
	changed    bool // became dirty while it was evicting: claim it again
	rebalanced bool // released so that another process takes it
	lost       bool // belongs to a lease that is over: nothing of it is recorded
	paused     bool // it was paused after it was loaded: its stored cursor does not move
}

func newQueue(w *Loaded, now time.Time) *queue {
	q := &queue{
		key: w.Key, endpoint: w.Endpoint, health: healthState{Health: w.Health},
		live:  liveRange{scanned: w.Position, visible: w.Position, saved: w.Position, sent: w.Sent},
		evict: evictState{lastUsed: now},
		poll:  pollState{recorded: map[int64]struct{}{}},
	}
	if q.live.sent == nil {
		q.live.sent = map[int64]struct{}{}
	}
	if w.ReplayTo > 0 && w.Endpoint.On {
		q.replay = replayRange{scanned: w.ReplayAfter, to: w.ReplayTo, saved: w.ReplayAfter}
	}
	if !w.Health.FailingSince.IsZero() {
		// Its failures may be costly. Until this process has had a response, treat
		// it as if they were.
		q.costly.failures = costlyAfter
	}
	for i := range q.open {
		q.open[i] = map[int64]struct{}{}
	}
	return q
}

// mayStart reports whether the queue has something to send and its own state does not hold it back.
func (q *queue) mayStart(bound int, now time.Time) bool {
	return !q.evict.evicting && !q.health.turningOff && q.unrecorded < bound && q.waiting() > 0 && !now.Before(q.pause.until)
}

// waiting counts the attempts that were read and not started.
func (q *queue) waiting() (n int) {
	for from := range sources {
		n += len(q.pending[from])
	}
	return n
}

// start takes the next attempt. Its event was published at or after oldest, unless it is a retry.
// The sources take turns, so that neither a long backlog nor many retries hold the others up. start
// returns nil if there is none now.
func (q *queue) start(oldest time.Time) *Attempt {
	for range sources {
		from := q.turn
		q.turn = (q.turn + 1) % sources
		if (from == Live || from == Replay) && !q.passHistory(from, oldest) || len(q.pending[from]) == 0 {
			continue
		}
		a := pop(&q.pending[from])
		q.open[from][a.Position] = struct{}{}
		q.inFlight++
		q.unrecorded++
		a.Endpoint = q.endpoint
		return a
	}
	return nil
}

// passHistory drops and counts the first pending events of a source that were published before
// oldest. Publish times rise with the position. It returns false if such an event is behind an open
// attempt: it has to wait, so that the count that is stored with the cursor covers only events
// before the cursor.
func (q *queue) passHistory(from Source, oldest time.Time) bool {
	for len(q.pending[from]) > 0 && q.pending[from][0].Published.Before(oldest) {
		if len(q.open[from]) > 0 {
			return false
		}
		pop(&q.pending[from])
		q.unsaved.expired[from]++
		q.unsaved.cursor = true
	}
	return true
}

// putBack undoes start.
func (q *queue) putBack(a *Attempt) {
	delete(q.open[a.Source], a.Position)
	q.inFlight--
	q.unrecorded--
	list := q.pending[a.Source]
	at := 0
	if a.Source != Retry { // the others stay in log order, which done relies on
		for at < len(list) && list[at].Position < a.Position {
			at++
		}
	}
	q.pending[a.Source] = slices.Insert(list, at, a)
	if q.evict.evicting {
		q.unread(a.Source)
	}
}

// holds reports whether a position is pending or open, or was recorded during the poll that is
// being answered.
func (q *queue) holds(position int64) bool {
	if _, ok := q.poll.recorded[position]; ok {
		return true
	}
	for i := range q.open {
		if _, ok := q.open[i][position]; ok {
			return true
		}
	}
	for _, from := range []Source{Retry, Replay} {
		for _, a := range q.pending[from] {
			if a.Position == position {
				return true
			}
		}
	}
	return false
}

// recorded frees the slot of an attempt whose result is in the database.
func (q *queue) recorded(a *Attempt) {
	delete(q.open[a.Source], a.Position)
	q.unrecorded--
	q.unsaved.cursor = true
	if a.Source == Live {
		q.live.passed = max(q.live.passed, a.Position)
	}
	if q.poll.underWay {
		q.poll.recorded[a.Position] = struct{}{}
	}
}

// done returns the position up to which every event is recorded or is not for this webhook. The
// stored cursor may move up to it.
func (q *queue) done() int64 { return lowest(q.open[Live], q.pending[Live], q.live.scanned) }

// replayed returns the same for missed events; 0: there are none.
func (q *queue) replayed() int64 {
	if q.replay.to == 0 {
		return 0
	}
	return lowest(q.open[Replay], q.pending[Replay], q.replay.scanned)
}

// lowest returns the position before the first one that is open or pending, or scanned if there is
// none.
func lowest(open map[int64]struct{}, pending []*Attempt, scanned int64) int64 {
	least := scanned
	for p := range open {
		least = min(least, p-1)
	}
	if len(pending) > 0 {
		least = min(least, pending[0].Position-1)
	}
	return least
}

// unread drops the attempts of a source that are not started, so that they are
// read again.
func (q *queue) unread(from Source) {
	list := q.pending[from]
	q.pending[from] = nil
	if from == Live {
		// An attempt that could not be made is put back when later ones were sent. It stays,
		// because reading the log again from there would send the later ones twice.
		n := q.overtaken(list)
		q.pending[from], list = slices.Clip(list[:n]), list[n:]
	}
	if len(list) == 0 {
		return
	}
	switch from {
	case Live:
		q.live.scanned = min(q.live.scanned, list[0].Position-1)
	case Replay:
		q.replay.scanned = min(q.replay.scanned, list[0].Position-1)
	case Retry, sources: // they wait in the database
	}
}

// overtaken counts the first pending new events that come before an event whose attempt is open or
// recorded.
func (q *queue) overtaken(list []*Attempt) (n int) {
	passed := q.live.passed
	for p := range q.open[Live] {
		passed = max(passed, p)
	}
	for n < len(list) && list[n].Position < passed {
		n++
	}
	return n
}

// idle reports whether the queue has nothing to do.
func (q *queue) idle() bool {
	return q.unrecorded == 0 && q.waiting() == 0 && !q.poll.dirty && !q.poll.underWay && q.replay.to == 0 && q.live.scanned >= q.live.visible
}

// needsMore reports whether little is left of what was read, and the database has more.
func (q *queue) needsMore() bool {
	return len(q.pending[Live]) < ReadAhead/4 && q.live.scanned < q.live.visible ||
		len(q.pending[Replay]) < ReadAhead/4 && q.replay.to > 0 ||
		len(q.pending[Retry]) == 0 && q.retry.more
}

// takeCursor returns the cursor that may be stored now, with the counts that were not stored yet.
func (q *queue) takeCursor() CursorRecord {
	expired := q.unsaved.expired
	q.unsaved.expired = [sources]int64{}
	e := q.endpoint
	if q.evict.paused {
		e = unknownEndpoint()
	}
	return CursorRecord{Expired: expired[Live], ReplayExpired: expired[Replay], Key: q.key, Epoch: e.Epoch, Version: e.Version, Position: q.done(), Replayed: q.replayed()}
}

// pop removes and returns the first element of a list that is not empty.
func pop[T any](list *[]*T) *T {
	first := (*list)[0]
	(*list)[0] = nil
	*list = (*list)[1:]
	return first
}

// An attempt that is answered over an open connection costs next to nothing. A new connection costs
// a TLS handshake, one to two milliseconds of processor time. An attempt without a response
// occupies its slot for the whole timeout, and its record has three rows instead of one. Many
// receivers that hang would use up the processors. So webhooks whose attempts keep failing
// expensively share one token bucket. The few that a process usually has never empty it, and one
// attempt that is not costly takes a webhook out of it.
const (
	// costlyAfter is how many costly failures in a row put a webhook under the
	// token bucket.
	costlyAfter = 3

	// burstSeconds is how many seconds' worth of tokens may be used at once.
	burstSeconds = 10
)

// costlyState is a queue's state in the throttle.
type costlyState struct {
	failures int  // costly failures in a row
	hasToken bool // it may start one attempt
}

// throttle is the token bucket and the queues that wait for a token.
type throttle struct {
	bucket *rate.Limiter
	queues []*queue
}

func newThrottle(perSecond int) throttle {
	return throttle{bucket: rate.NewLimiter(rate.Limit(perSecond), burstSeconds*perSecond)}
}

// waitForToken reports whether a queue must wait for a token before its next
// attempt. If so, it is added to the waiting queues.
func (t *throttle) waitForToken(q *queue, now time.Time) bool {
	switch {
	case q.costly.failures < costlyAfter:
		return false
	case q.costly.hasToken:
		q.costly.hasToken = false
		return false
	case len(t.queues) == 0 && t.bucket.AllowN(now, 1):
		return false
	}
	t.queues = append(t.queues, q)
	return true
}

// release returns the queues that get a token now.
func (t *throttle) release(now time.Time) (list []*queue) {
	for len(t.queues) > 0 && t.bucket.AllowN(now, 1) {
		q := pop(&t.queues)
		q.costly.hasToken = true
		list = append(list, q)
	}
	return list
}

// next returns when the first waiting queue gets a token; zero: none waits.
func (t *throttle) next(now time.Time) time.Time {
	if len(t.queues) == 0 {
		return time.Time{}
	}
	missing := 1 - t.bucket.TokensAt(now)
	return now.Add(max(time.Duration(missing/float64(t.bucket.Limit())*float64(time.Second)), 0) + time.Microsecond)
}

// attempted counts costly failures. Any other result takes the queue out of the
// throttle; it returns true if the queue was waiting for a token.
func (t *throttle) attempted(q *queue, costly bool) (waited bool) {
	if costly {
		q.costly.failures++
		return false
	}
	q.costly = costlyState{}
	return t.remove(q)
}

func (t *throttle) remove(q *queue) bool {
	i := slices.Index(t.queues, q)
	if i >= 0 {
		t.queues = slices.Delete(t.queues, i, i+1)
	}
	return i >= 0
}

// timer wakes a queue. Each queue has one.
type timer struct {
	at    time.Time // zero: it is not set
	index int       // in the heap
}

// timers is a heap of the queues whose timer is set, earliest first.
type timers []*queue

// set sets, moves or, with the zero time, clears a queue's timer.
func (t *timers) set(q *queue, at time.Time) {
	was := q.timer.at
	q.timer.at = at
	switch {
	case was.IsZero() && at.IsZero():
	case was.IsZero():
		heap.Push(t, q)
	case at.IsZero():
		q.timer.at = was // the heap's order must hold while it is removed
		heap.Remove(t, q.timer.index)
		q.timer.at = at
	default:
		heap.Fix(t, q.timer.index)
	}
}

// update sets a queue's timer to the end of its pause or the time of its next retry,
// whichever comes first.
func (t *timers) update(now time.Time, q *queue) {
	var first time.Time
	for _, at := range []time.Time{q.pause.until, q.retry.next} {
		if at.After(now) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	t.set(q, first)
}

// next returns the time of the first timer; zero: none is set.
func (t timers) next() time.Time {
	if len(t) == 0 {
		return time.Time{}
	}
	return t[0].timer.at
}

// take clears the first timer and returns its queue, if its time has come.
func (t *timers) take(now time.Time) *queue {
	if len(*t) == 0 || now.Before((*t)[0].timer.at) {
		return nil
	}
	q := (*t)[0]
	t.set(q, time.Time{})
	return q
}

// Len implements heap.Interface.
func (t timers) Len() int { return len(t) }

// Less implements heap.Interface.
func (t timers) Less(i, j int) bool { return t[i].timer.at.Before(t[j].timer.at) }

// Swap implements heap.Interface.
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].timer.index, t[j].timer.index = i, j
}

// Push implements heap.Interface.
func (t *timers) Push(x any) {
	q, ok := x.(*queue)
	if !ok {
		return // cannot happen: only queues are pushed
	}
	q.timer.index = len(*t)
	*t = append(*t, q)
}

// Pop implements heap.Interface.
func (t *timers) Pop() any {
	last := len(*t) - 1
	q := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	return q
}

// A webhook must not hold up the others when another transaction, such as a psql session, has
// locked one of its rows. Its part of a record is written apart from the rest, and nothing further
// of it is recorded until that is done. Meanwhile Config.Bound, the limit on unrecorded attempts,
// stops it.

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

// Empty reports whether a record has no webhooks.
func (r *Record) Empty() bool { return len(r.queues) == 0 }

// Key returns the webhook of a part of a record.
func (r *Record) Key() Key { return r.queues[0].key }

// without removes from a record what its parts contain.
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
