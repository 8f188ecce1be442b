package scheduler

import (
	"maps"
	"slices"
	"time"
)

// leaseRenewed rebalances webhooks with other processes, and frees what is held
// in the database only.
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

// reconcile is needed when the database has more webhooks under this process's
// lease than are known here: the answer to a claim was lost. It waits until
// nothing is being claimed or released, and nothing is claimed meanwhile.
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

// leaseLost forgets all queues, because other processes may hold them. Attempts
// under way end and are not recorded.
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
