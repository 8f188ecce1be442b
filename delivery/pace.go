package delivery

import (
	"runtime"
	"slices"
	"time"
)

// A message that is answered over a connection kept open costs next to nothing.
// One that needs a new connection costs a TLS handshake, a millisecond or two of a
// processor; one that is not answered holds its place for all the time an attempt
// has, and its record is three rows instead of one. A process that delivers to many
// receivers that hang would spend its processors on them, at the expense of all
// others. So webhooks that do nothing but fail, and that dearly, share a pace, each
// in its turn. The few that a process usually has never come near it, and one attempt
// that is not of this kind ends it.
const (
	// dearAfter so many dear failures in a row a webhook takes turns.
	dearAfter = 3

	// turnsPerProcessor a second take about 1 % of it.
	turnsPerProcessor = 8

	// turnsSaved is how many seconds' worth of turns may be taken at once when none
	// were taken before.
	turnsSaved = 10
)

// defaultPace is how many turns a second there are by default.
func defaultPace() int { return turnsPerProcessor * runtime.GOMAXPROCS(0) }

// dearFailure tells whether an attempt led to nothing and cost much.
func dearFailure(a Attempt) bool {
	return !a.Success() && (a.Handshake || a.Outcome == OutcomeTimeout)
}

// paced tells whether the lane has to wait for its turn, and has it wait. Needs the
// lock.
func (d *desk) paced(l *lane) bool {
	switch {
	case l.dear < dearAfter:
		return false
	case l.hasTurn:
		l.hasTurn = false
		return false
	case len(d.turns) == 0 && d.pace.Allow():
		return false
	}
	l.queued = true
	d.turns = append(d.turns, l)
	d.awaitTurn()
	return true
}

// awaitTurn sees to it that the first of those who wait gets its turn. Needs the
// lock.
func (d *desk) awaitTurn() {
	if d.turning || len(d.turns) == 0 {
		return
	}
	d.turning = true
	now := time.Now()
	r := d.pace.ReserveN(now, 1)
	time.AfterFunc(r.DelayFrom(now), d.giveTurn)
	r.CancelAt(now) // it is taken by whoever has its turn then
}

func (d *desk) giveTurn() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turning = false
	if len(d.turns) > 0 && d.pace.Allow() {
		l := pop(&d.turns)
		l.hasTurn = true
		d.offerAgain(l)
	}
	d.awaitTurn()
}

// judgeCost is told whether an attempt was a dear failure. One that was not ends
// the lane's waiting. Needs the lock.
func (d *desk) judgeCost(l *lane, dear bool) {
	if dear {
		l.dear++
		return
	}
	mayWait := l.dear >= dearAfter // of all others, which are most, it is known
	l.dear, l.hasTurn = 0, false
	if !mayWait {
		return
	}
	if i := slices.Index(d.turns, l); i >= 0 {
		d.turns = slices.Delete(d.turns, i, i+1)
		d.offerAgain(l)
	}
}
