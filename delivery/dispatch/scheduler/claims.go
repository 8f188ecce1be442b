package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
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

// unknownEndpoint returns an Endpoint for unknown settings. Its epoch and version match no row, so
// no cursor moves under it.
func unknownEndpoint() *Endpoint { return &Endpoint{Epoch: -1, Version: -1} }

func (s *Scheduler) claimed(now time.Time, e Claimed) {
	if e.More {
		s.claims.failed(e.Claim)
	} else {
		s.claims.done(e.Claim, e.Endpoints, now)
	}
	if e.Claim.Lease != s.lease {
		return // held under a lease that is over, so by nobody
	}
	for i := range e.Endpoints {
		w := &e.Endpoints[i]
		if s.queues[w.Key] != nil {
			continue // cannot happen: what is held is not free
		}
		q := newQueue(w, now)
		s.queues[w.Key] = q
		s.byWorkspace[w.Key.WorkspaceID] = append(s.byWorkspace[w.Key.WorkspaceID], q)
		s.polls.mark(q)
		if s.draining {
			s.evict(q)
		} else if w.Health.Recovered != 0 { // the process before ended meanwhile
			s.emit(ChangeHealth{&HealthChange{Key: q.key, Endpoint: q.endpoint, Change: policy.Recovered, At: time.UnixMilli(w.Health.Recovered), queue: q}})
		}
	}
}

// evict starts the release of a webhook.
func (s *Scheduler) evict(q *queue) {
	if q.evict.evicting {
		return
	}
	q.evict.evicting = true
	for from := range sources {
		q.unread(from)
	}
	s.releaseIfDone(q)
}

// releaseIfDone releases an evicting webhook when it has nothing open.
func (s *Scheduler) releaseIfDone(q *queue) {
	if q.evict.evicting && q.unrecorded == 0 && !q.apart && !q.poll.underWay && s.queues[q.key] == q {
		forget(s, q)
		s.results.evicted = append(s.results.evicted, q)
	}
}

// forget removes a queue from the held ones. It stays in byWorkspace until its release is recorded:
// nobody else can claim it before that, so an event that comes meanwhile is marked here.
func forget(s *Scheduler, q *queue) {
	delete(s.queues, q.key)
	delete(s.claims.debounced, q.key.WorkspaceID) // there may be something to claim again
	s.timers.set(q, time.Time{})
	if s.starts.throttle.remove(q) {
		q.listed = false
	}
}

// released claims again the webhooks that got work meanwhile, and tells other processes which
// webhooks are left to them.
func (s *Scheduler) released(list []*queue) {
	var notify []string
	for _, q := range list {
		w := q.key.WorkspaceID
		s.byWorkspace[w] = slices.DeleteFunc(s.byWorkspace[w], func(other *queue) bool { return other == q })
		if len(s.byWorkspace[w]) == 0 {
			delete(s.byWorkspace, w)
		}
		held := s.queues[q.key]
		switch {
		case q.evict.lost || !q.evict.changed:
		case held != nil:
			s.polls.mark(held)
		default:
			s.claims.addKey(q.key)
		}
		if q.evict.rebalanced && !q.evict.lost {
			notify = append(notify, w)
		}
	}
	if len(notify) > 0 {
		s.emit(Notify{notify})
	}
}
