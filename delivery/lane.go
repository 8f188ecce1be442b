package delivery

import (
	"slices"
	"time"
)

// lane is a webhook that this process holds: what was read for it and what is
// under way. The desk's lock guards it all.
type lane struct {
	key    key
	hook   *hook
	health Health

	queue [lots][]*job
	turn  lot // whose turn it is among the lots that have something

	// The log was read up to scanned, which is visible when there is no more.
	scanned, visible int64
	ahead            map[int64]struct{} // sent by whoever held it before, after its saved position

	// Missed events are read from replayed+1 through replayUntil; 0: none.
	replayed, replayUntil int64

	open       [lots]map[int64]struct{} // started and not recorded, by position
	underWay   int                      // of them, being sent
	unrecorded int                      // all of open

	saved, savedReplay int64 // what webhook_cursor says
	dirty              bool  // something was recorded since it was saved
	healthDirty        bool
	counts             map[count]int64

	queued   bool // in the desk's queue of lanes that may start something
	wanted   bool // in the desk's queue of lanes to read for
	reading  bool
	again    bool               // was wanted while being read for
	finished map[int64]struct{} // recorded while being read for

	leaving     bool // start nothing more; let go when all is recorded
	turningOff  bool
	announced   bool // while leaving
	handedOver  bool // leaves so that another process takes it
	lost        bool // belongs to a lease that is over: nothing of it is recorded
	moreDue     bool // more retries are due than were read
	notBefore   time.Time
	dear        int  // dear failures in a row
	hasTurn     bool // to start one message more although they are many
	troubles    int  // in a row that were no attempt's fault
	lastUsed    time.Time
	read        time.Time // when it was last read for
	due         *time.Timer
	nextAttempt time.Time
}

type count struct {
	hour    time.Time
	outcome Outcome
}

func newLane(k key) *lane {
	l := &lane{key: k, ahead: map[int64]struct{}{}, counts: map[count]int64{}, finished: map[int64]struct{}{}}
	for i := range l.open {
		l.open[i] = map[int64]struct{}{}
	}
	return l
}

// startable tells whether the lane has something to send and may.
func (l *lane) startable(bound int, now time.Time) bool {
	return !l.leaving && !l.turningOff && l.unrecorded < bound && l.waiting() > 0 && !now.Before(l.notBefore)
}

// waiting counts what was read and not started.
func (l *lane) waiting() int {
	n := 0
	for i := range l.queue {
		n += len(l.queue[i])
	}
	return n
}

// start takes the next job, each lot in its turn, so that neither a long
// backlog nor many retries hold the others up.
func (l *lane) start() *job {
	for range lots {
		from := l.turn
		l.turn = (l.turn + 1) % lots
		if len(l.queue[from]) == 0 {
			continue
		}
		j := pop(&l.queue[from])
		l.open[from][j.position] = struct{}{}
		l.underWay++
		l.unrecorded++
		j.hook = l.hook
		return j
	}
	return nil
}

// putBack undoes start: the attempt was not made.
func (l *lane) putBack(j *job) {
	delete(l.open[j.lot], j.position)
	l.underWay--
	l.unrecorded--
	q := l.queue[j.lot]
	at := 0
	if j.lot != retry { // the others are in the order of the log, which done relies on
		for at < len(q) && q[at].position < j.position {
			at++
		}
	}
	l.queue[j.lot] = slices.Insert(q, at, j)
	if l.leaving {
		l.unread(j.lot)
	}
}

// holds tells whether a position is queued or open in any lot, or was recorded
// while the lane is being read for.
func (l *lane) holds(position int64) bool {
	if _, ok := l.finished[position]; ok {
		return true
	}
	for i := range l.open {
		if _, ok := l.open[i][position]; ok {
			return true
		}
	}
	for _, from := range []lot{retry, missed} {
		for _, j := range l.queue[from] {
			if j.position == position {
				return true
			}
		}
	}
	return false
}

// recorded frees the place of a job whose outcome is in the database.
func (l *lane) recorded(j *job) {
	delete(l.open[j.lot], j.position)
	l.unrecorded--
	l.dirty = true
	if l.reading {
		l.finished[j.position] = struct{}{}
	}
}

// done is the position up to which everything is recorded or not for the
// webhook: what the cursor may say.
func (l *lane) done() int64 { return lowest(l.open[fresh], l.queue[fresh], l.scanned) }

// replayDone is the same of missed events; 0 when there are none.
func (l *lane) replayDone() int64 {
	if l.replayUntil == 0 {
		return 0
	}
	return lowest(l.open[missed], l.queue[missed], l.replayed)
}

func lowest(open map[int64]struct{}, queue []*job, scanned int64) int64 {
	least := scanned
	for p := range open {
		least = min(least, p-1)
	}
	if len(queue) > 0 {
		least = min(least, queue[0].position-1)
	}
	return least
}

// unread forgets what was read of a lot and not started, so that it is read
// again under new settings.
func (l *lane) unread(from lot) {
	q := l.queue[from]
	l.queue[from] = nil
	if len(q) == 0 {
		return
	}
	switch from {
	case fresh:
		l.scanned = min(l.scanned, q[0].position-1)
	case missed:
		l.replayed = min(l.replayed, q[0].position-1)
	case retry, lots: // their rows wait in the database
	}
}

// idle tells whether the lane has nothing to do.
func (l *lane) idle() bool {
	return l.unrecorded == 0 && l.waiting() == 0 && !l.wanted && !l.reading && l.replayUntil == 0 && l.scanned >= l.visible
}

// oldest is the publish time of the first event that is not recorded; zero
// when there is none. Retries do not count: they were sent once.
func (l *lane) oldest() time.Time {
	if len(l.queue[fresh]) > 0 {
		return l.queue[fresh][0].published
	}
	return time.Time{}
}
