package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

const (
	// fruitlessPause is the pause after a claim that took nothing. Nearly all webhooks with events
	// are held already, so claims are collected during the pause.
	fruitlessPause = 20 * time.Millisecond

	// debounceTime is how long claims leave out a workspace that had nothing to claim. In a busy
	// workspace whose webhooks are all held, not every event is worth a claim. A sweep finds what
	// is missed.
	debounceTime = 200 * time.Millisecond
	// maxDebounced bounds how many of these workspaces are remembered.
	maxDebounced = 10_000
)

// claims are the webhooks that may have something to do and are not held here.
type claims struct {
	workspaces map[string]struct{}
	keys       map[Key]struct{}
	due        time.Time // when the first of them may be claimed

	underWay  *Claim
	notBefore time.Time
	blocked   bool // while held webhooks are reconciled with the database

	debounced   map[string]time.Time // workspaces with nothing to claim, and until when
	coolingDown map[Key]time.Time    // webhooks left to other processes, and until when
}

func newClaims() claims {
	return claims{
		workspaces: map[string]struct{}{}, keys: map[Key]struct{}{},
		debounced: map[string]time.Time{}, coolingDown: map[Key]time.Time{},
	}
}

func (c *claims) empty() bool { return len(c.workspaces)+len(c.keys) == 0 }

// addWorkspace adds the webhooks of a workspace that are not held here.
func (c *claims) addWorkspace(workspaceID string) {
	if until := c.debounced[workspaceID]; c.empty() || until.Before(c.due) {
		c.due = until
	}
	c.workspaces[workspaceID] = struct{}{}
}

// addKey adds one webhook.
func (c *claims) addKey(k Key) {
	c.due = time.Time{}
	c.keys[k] = struct{}{}
}

// take returns the next claim to make; nil: none now.
func (c *claims) take(lease string, now time.Time) *Claim {
	if lease == "" || c.underWay != nil || c.blocked || c.empty() || now.Before(c.due) || now.Before(c.notBefore) {
		return nil
	}
	claim := &Claim{Lease: lease}
	c.due = time.Time{}
	for w := range c.workspaces {
		until := c.debounced[w]
		if !now.Before(until) {
			claim.WorkspaceIDs = append(claim.WorkspaceIDs, w)
			delete(c.workspaces, w)
		} else if c.due.IsZero() || until.Before(c.due) {
			c.due = until
		}
	}
	if len(claim.WorkspaceIDs)+len(c.keys) == 0 {
		return nil
	}
	slices.Sort(claim.WorkspaceIDs)
	claim.Keys = slices.SortedFunc(maps.Keys(c.keys), Key.compare)
	clear(c.keys)
	maps.DeleteFunc(c.coolingDown, func(_ Key, until time.Time) bool { return !now.Before(until) })
	claim.Except = slices.SortedFunc(maps.Keys(c.coolingDown), Key.compare)
	c.underWay = claim
	return claim
}

// done ends the current claim and remembers the workspaces in which nothing was claimed.
func (c *claims) done(claim *Claim, claimed []Loaded, now time.Time) {
	c.underWay = nil
	if len(c.debounced) > maxDebounced {
		clear(c.debounced)
	}
	for _, w := range claim.WorkspaceIDs {
		c.debounced[w] = now.Add(debounceTime)
	}
	for i := range claimed {
		delete(c.debounced, claimed[i].Key.WorkspaceID)
	}
	if len(claimed) == 0 {
		c.notBefore = now.Add(fruitlessPause)
	}
}

// failed ends the current claim, which failed or was incomplete, and puts it back.
func (c *claims) failed(claim *Claim) {
	c.underWay = nil
	for _, w := range claim.WorkspaceIDs {
		c.addWorkspace(w)
	}
	for _, k := range claim.Keys {
		c.addKey(k)
	}
}

// next returns when take may return a claim; zero: not before another event.
func (c *claims) next(now time.Time) time.Time {
	switch {
	case c.underWay != nil || c.blocked || c.empty():
		return time.Time{}
	case c.due.Before(c.notBefore):
		return c.notBefore
	case c.due.Before(now):
		return now
	}
	return c.due
}

// compare orders keys.
func (k Key) compare(o Key) int {
	return cmp.Or(cmp.Compare(k.WorkspaceID, o.WorkspaceID), cmp.Compare(k.WebhookID, o.WebhookID))
}

// leaseRenewed rebalances webhooks with other processes, and frees webhooks that are held only in
// the database.
func (s *Scheduler) leaseRenewed(now time.Time, e LeaseRenewed) {
	if e.Lease != s.lease {
		return
	}
	s.leaseFrom = e.At
	rebalance(s, now, e.Census)
	reconcile(s, e.Census)
}

// rebalance releases webhooks beyond this process's even share, and does not
// claim them for a while.
func rebalance(s *Scheduler, now time.Time, c Census) {
	if c.Processes < 2 {
		return
	}
	surplus := c.Mine - (c.Held+c.Processes-1)/c.Processes
	for _, k := range slices.SortedFunc(maps.Keys(s.queues), Key.compare) {
		if surplus <= 0 {
			return
		}
		if q := s.queues[k]; !q.evict.evicting && !q.health.turningOff {
			q.evict.rebalanced = true
			s.claims.coolingDown[q.key] = now.Add(s.cfg.CoolDown)
			s.evict(q)
			surplus--
		}
	}
}

// reconcile emits a Reconcile if the database has more webhooks under this process's lease than are
// known here, because the answer to a claim was lost. It waits until nothing is being claimed or
// released, and blocks claims meanwhile.
func reconcile(s *Scheduler, c Census) {
	releasing := len(s.results.evicted) > 0 || s.results.underWay != nil && len(s.results.underWay.Releases) > 0
	if c.Mine <= len(s.queues) || s.claims.underWay != nil || s.claims.blocked || releasing || s.draining {
		return
	}
	known := make(map[Key]struct{}, len(s.queues))
	for k := range s.queues {
		known[k] = struct{}{}
	}
	for q := range s.apart { // some of them are still to be released
		known[q.key] = struct{}{}
	}
	if c.Mine <= len(known) {
		return
	}
	s.claims.blocked = true
	s.emit(Reconcile{Lease: s.lease, Known: known})
}

// leaseLost forgets all queues, because other processes may hold them. Attempts in flight end and
// are not recorded.
func (s *Scheduler) leaseLost(lease string) {
	if lease != s.lease || s.taking {
		return
	}
	for _, q := range s.queues {
		q.evict.lost, q.evict.evicting = true, true
		forget(s, q)
	}
	for _, q := range slices.Concat(s.results.evicted, s.results.evictedApart) {
		q.evict.lost = true
	}
	clear(s.byWorkspace)
	s.starts.clear()
	s.polls.dirty = nil
	s.results = results{underWay: s.results.underWay}
	s.lease, s.taking = "", true
	s.emit(TakeLease{Old: lease})
}

const (
	// ReadAhead is how many messages of a source are read for a webhook at a time.
	ReadAhead = 128

	// maxPollBatch is how many webhooks one poll reads for.
	maxPollBatch = 64
	// maxPolls is how many polls run at once, so that one slow statement (such as weeks of missed
	// events) does not delay the others.
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

// ended is called for each queue of a poll that has ended.
func (p *polls) ended(now time.Time, q *queue) {
	q.poll.underWay, q.poll.at = false, now
	clear(q.poll.recorded)
	if q.poll.again {
		q.poll.again = false
		p.mark(q)
	}
}

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
