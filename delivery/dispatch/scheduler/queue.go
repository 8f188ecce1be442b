package scheduler

import (
	"slices"
	"time"

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

// A webhook must not hold up the others when another transaction, such as a psql session, has
// locked one of its rows. Its part of a record is written apart from the rest, and nothing further
// of it is recorded until that is done. Meanwhile Config.Bound, the limit on unrecorded attempts,
// stops it.

// request returns what to read for a queue.
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

// change gives a queue new settings. It returns false if the webhook was turned off, turned off and
// on again, or paused since its settings were read. Others may then have moved its cursor and
// counted from there, so the queue must be released.
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
		q.health = healthState{Health: w.Health} // another address and resuming clear it
	}
	if moved {
		q.pause = pauseState{}
	}
	q.endpoint = w.Endpoint
	q.poll.again = true
	return true
}

// outdated gives a queue the settings that change has refused, so that the results of its last
// attempts are judged by them. If the webhook was only paused, the results still count.
func (q *queue) outdated(w *Loaded) {
	if q.endpoint.Epoch < w.Endpoint.Kept {
		q.endpoint = unknownEndpoint()
		return
	}
	q.endpoint, q.health, q.evict.paused = w.Endpoint, healthState{Health: w.Health}, true
}
