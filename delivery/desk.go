package delivery

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// desk is the webhooks that this process holds, and decides which message is
// started next: each webhook in turn, within its own bound and within its share
// of the process.
type desk struct {
	clock  func() time.Time
	policy Policy
	bound  int // messages of a webhook under way: started and not recorded
	limit  int // attempts under way in the process

	startable chan struct{} // one token while queue may hold something
	readable  chan struct{} // one token while wants may
	claimable chan struct{} // one token while workspaces or keys may
	recording chan struct{} // one token while there are results to record
	hurrying  chan struct{} // one token when they have become urgent

	mu          sync.Mutex
	lanes       map[key]*lane
	byWork      map[string][]*lane // by workspace
	queue       []*lane            // may start something
	starved     []*lane            // would, but for the process's limit
	pace        *rate.Limiter      // of webhooks that only fail, dearly
	turns       []*lane            // would, but for the pace
	turning     bool               // a timer runs for them
	wants       []*lane            // to be read for
	workspaces  map[string]struct{}
	keys        map[key]struct{} // webhooks that may have something to do, and are not held
	results     []*job
	firstResult time.Time // when the first of them came
	pressed     bool      // a webhook of theirs has no place left for what it has to send
	alarms      []alarm
	leavers     []*lane              // nothing of theirs is left: let go
	saves       []*lane              // cursors to be saved
	quiet       map[string]time.Time // workspaces with nothing to claim, until when
	waking      bool                 // a timer runs for them
	resting     map[key]time.Time    // not to be claimed before, so that another process can
	underWay    int
	closed      bool
}

// alarm is a decision that concerns the whole webhook.
type alarm struct {
	lane   *lane
	kind   Alarm
	hook   *hook
	since  time.Time // of failing
	at     time.Time
	reason string
	answer string
}

func newDesk(clock func() time.Time, policy Policy, bound, limit, pace int) *desk {
	token := func() chan struct{} { return make(chan struct{}, 1) }
	return &desk{
		clock: clock, policy: policy, bound: bound, limit: limit,
		pace:      rate.NewLimiter(rate.Limit(pace), turnsSaved*pace),
		startable: token(), readable: token(), claimable: token(), recording: token(), hurrying: token(),
		lanes: map[key]*lane{}, byWork: map[string][]*lane{},
		workspaces: map[string]struct{}{}, keys: map[key]struct{}{}, quiet: map[string]time.Time{}, resting: map[key]time.Time{},
	}
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is awake already
	}
}

// offer queues a lane that may be able to start something. Needs the lock.
func (d *desk) offer(l *lane) {
	if !l.queued && !d.closed && l.startable(d.bound, d.clock()) {
		l.queued = true
		d.queue = append(d.queue, l)
		nudge(d.startable)
	}
	d.press(l)
}

// offerAgain offers a lane that was held back. Needs the lock.
func (d *desk) offerAgain(l *lane) {
	l.queued = false
	d.offer(l)
}

// pop takes the first of a list that is not empty.
func pop[T any](list *[]*T) *T {
	first := (*list)[0]
	(*list)[0] = nil
	*list = (*list)[1:]
	return first
}

// want queues a lane to be read for. Needs the lock.
func (d *desk) want(l *lane) {
	switch {
	case l.leaving:
		l.announced = true
	case l.reading:
		l.again = true
	case !l.wanted && !d.closed:
		l.wanted = true
		d.wants = append(d.wants, l)
		nudge(d.readable)
	}
}

// announce is told of workspaces whose visible position moved, or whose
// webhooks were changed.
func (d *desk) announce(workspaces []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range workspaces {
		for _, l := range d.byWork[w] {
			d.want(l)
		}
		d.workspaces[w] = struct{}{} // some of its webhooks may not be held
	}
	nudge(d.claimable)
}

// announceAll is told that anything may have happened.
func (d *desk) announceAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.lanes {
		d.want(l)
	}
}

// rereadEvery is after how long a webhook that is held is read for again for no
// better reason than that something of it is open in the database. Receivers
// that hang keep things open for long; to read for them at every sweep would
// hold up the others.
const rereadEvery = 10 * time.Second

// found is told of webhooks that have something to do and that nobody else
// holds, and tells how many this process does not hold either. One that it does
// hold may have missed a wake-up.
func (d *desk) found(list []candidate) (free int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range list {
		l := d.lanes[c.key]
		switch {
		case l == nil:
			d.keys[c.key] = struct{}{}
			free++
		case c.visible > l.visible || time.Since(l.read) >= rereadEvery:
			d.want(l)
		}
	}
	nudge(d.claimable)
	return free
}

// candidates is told of webhooks that were let go and have something to do.
func (d *desk) candidates(keys []key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range keys {
		if l := d.lanes[k]; l != nil {
			d.want(l)
			continue
		}
		d.keys[k] = struct{}{}
	}
	nudge(d.claimable)
}

// next waits for a message that may be started. It returns nil when ctx has
// ended or the desk is closed.
func (d *desk) next(ctx context.Context) *job {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.startable:
		}
		if j := d.take(); j != nil {
			return j
		}
	}
}

func (d *desk) take() *job {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock()
	for len(d.queue) > 0 && !d.closed {
		l := pop(&d.queue)
		l.queued = false
		if !l.startable(d.bound, now) {
			continue
		}
		if !mayStart(l.underWay, d.bound, d.underWay, d.limit, len(d.lanes)) {
			l.queued = true
			d.starved = append(d.starved, l)
			continue
		}
		if d.paced(l) {
			continue
		}
		j := l.start()
		d.underWay++
		l.lastUsed = now
		d.offer(l)
		d.refill(l)
		if len(d.queue) > 0 {
			nudge(d.startable)
		}
		return j
	}
	return nil
}

// refill has more read when little is left. Needs the lock.
func (d *desk) refill(l *lane) {
	if l.leaving || l.turningOff {
		return
	}
	if len(l.queue[fresh]) < readAhead/4 && l.scanned < l.visible || len(l.queue[missed]) < readAhead/4 && l.replayUntil > 0 ||
		len(l.queue[retry]) == 0 && l.moreDue {
		d.want(l)
	}
}

// feedStarved gives lanes that met the process's limit another chance, a few
// for each message that ended. Needs the lock.
func (d *desk) feedStarved() {
	for range min(len(d.starved), 8) {
		d.offerAgain(pop(&d.starved))
	}
}

// wake is called when a lane's pause is over, or a delivery is due.
func (d *desk) wake(l *lane) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lanes[l.key] == l {
		d.want(l)
		d.offer(l)
	}
}

// dueAt has the lane woken for its next retry. Needs the lock.
func (d *desk) dueAt(l *lane, at time.Time) {
	if at.IsZero() || !l.nextAttempt.IsZero() && !at.Before(l.nextAttempt) && l.nextAttempt.After(d.clock()) {
		return
	}
	l.nextAttempt = at
	if l.due != nil {
		l.due.Stop()
	}
	l.due = time.AfterFunc(max(at.Sub(d.clock()), 0), func() { d.wake(l) })
}

// settle lets a lane go that is leaving and has nothing open. Needs the lock.
func (d *desk) settle(l *lane) {
	if l.leaving && l.unrecorded == 0 && !l.reading && d.lanes[l.key] == l {
		d.remove(l)
		d.leavers = append(d.leavers, l)
		nudge(d.recording)
	}
}

// leave starts letting a lane go. Needs the lock.
func (d *desk) leave(l *lane) {
	if l.leaving {
		return
	}
	l.leaving = true
	for from := range lots {
		l.unread(from)
	}
	d.settle(l)
}

func (d *desk) remove(l *lane) {
	delete(d.lanes, l.key)
	list := d.byWork[l.key.workspaceID]
	kept := make([]*lane, 0, len(list))
	for _, other := range list {
		if other != l {
			kept = append(kept, other)
		}
	}
	if len(kept) == 0 {
		delete(d.byWork, l.key.workspaceID)
	} else {
		d.byWork[l.key.workspaceID] = kept
	}
	delete(d.quiet, l.key.workspaceID) // now there is something to claim
	if l.due != nil {
		l.due.Stop()
	}
}
