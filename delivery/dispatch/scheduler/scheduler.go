package scheduler

import (
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
)

const (
	// saveInterval is how often cursors that moved are stored.
	saveInterval = time.Second
	// A cursor that only moved past entries of other types is stored every skipSaves-th time.
	skipSaves = 5

	// rereadInterval is the shortest time between two polls that a sweep causes for a held webhook
	// without new events. The sweep found something in the database whose notification may be lost.
	// More polls would delay other webhooks.
	rereadInterval = 10 * time.Second
)

// Config configures a Scheduler. All fields are required.
type Config struct {
	Policy policy.Policy

	Bound int // attempts of one webhook that are started and not recorded
	Limit int // attempts that are started in the process

	// CostlyPerSecond limits the rate of attempts, together, for all webhooks that keep failing
	// expensively.
	CostlyPerSecond int

	// Retention is how long events can be looked up. An event that is older when its turn comes is
	// skipped and counted.
	Retention time.Duration

	Idle time.Duration // a webhook without work is released after this time

	// LeaseUse is how long after a renewal attempts may be started: the duration of the lease, less
	// the timeout of an attempt.
	LeaseUse time.Duration

	// CoolDown is how long this process does not claim a webhook that it released for another
	// process.
	CoolDown time.Duration
}

// Scheduler is the state machine. Its methods must not be called concurrently.
type Scheduler struct {
	cfg Config

	queues      map[Key]*queue
	byWorkspace map[string][]*queue // including queues whose release is not recorded yet

	starts  starts
	polls   polls
	claims  claims
	results results
	timers  timers

	apart map[*queue]struct{} // queues with a record that is being written apart

	lease     string
	leaseFrom time.Time // when it was last taken or renewed
	taking    bool      // a lease is being taken

	saved     int // how often cursors were stored
	nextSave  time.Time
	unclaimed int // webhooks with work that nobody holds, by the last sweep
	draining  bool

	effects []Effect // of the current step
}

// New returns a Scheduler without a lease; the first event must be LeaseTaken.
func New(cfg Config) *Scheduler {
	return &Scheduler{
		cfg: cfg, queues: map[Key]*queue{}, byWorkspace: map[string][]*queue{}, apart: map[*queue]struct{}{},
		starts: starts{bound: cfg.Bound, limit: cfg.Limit, throttle: newThrottle(cfg.CostlyPerSecond)}, claims: newClaims(),
	}
}

// Step processes events and returns the effects to carry out.
func (s *Scheduler) Step(now time.Time, events ...Event) []Effect {
	for _, e := range events {
		s.apply(now, e)
	}
	s.tick(now)
	if !s.draining {
		s.startAttempts(now)
		for poll := s.polls.take(); poll != nil; poll = s.polls.take() {
			s.emit(poll)
		}
		if claim := s.claims.take(s.lease, now); claim != nil {
			s.emit(claim)
		}
	}
	if due := s.results.due(now, s.starts.inFlight, s.draining); !due.IsZero() && !now.Before(due) {
		s.emit(s.results.take(s.lease, now))
	}
	effects := s.effects
	s.effects = nil
	return effects
}

func (s *Scheduler) apply(now time.Time, e Event) {
	switch e := e.(type) {
	case Changed:
		s.changed(e)
	case Found:
		s.found(now, e.Candidates)
	case Claimed:
		s.claimed(now, e)
	case ClaimFailed:
		s.claims.failed(e.Claim)
	case Polled:
		s.polled(now, e)
	case PollFailed:
		s.pollFailed(now, e.Poll)
	case Attempted:
		s.attempted(now, e)
	case NotAttempted:
		s.notAttempted(now, e)
	case Returned:
		s.starts.inFlight--
		e.Attempt.queue.putBack(e.Attempt)
		s.releaseIfDone(e.Attempt.queue) // it may have been evicting before
	case Recorded:
		s.recorded(now, e)
	case HealthChanged:
		if c := e.Change; (c.Change.TurnsOff() || c.Change == policy.Recovered) && !c.queue.evict.lost {
			s.polls.mark(c.queue) // it is off now, unless somebody changed it first, or more is due
			if c.Change == policy.Recovered && c.queue.health.Recovered == c.At.UnixMilli() {
				c.queue.health.Recovered = 0
			}
		}
	case LeaseTaken:
		s.lease, s.leaseFrom, s.taking = e.Lease, e.At, false
	case LeaseRenewed:
		s.leaseRenewed(now, e)
	case LeaseLost:
		s.leaseLost(e.Lease)
	case Reconciled:
		s.claims.blocked = false
	case Drain:
		s.draining = true
	case Tick:
	}
}

func (s *Scheduler) emit(e Effect) { s.effects = append(s.effects, e) }

// NextTick returns when Step has to be called if no event comes before.
func (s *Scheduler) NextTick(now time.Time) time.Time {
	first := s.nextSave
	earlier := func(at time.Time) {
		if !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	earlier(s.timers.next())
	earlier(s.starts.throttle.next(now))
	earlier(s.results.due(now, s.starts.inFlight, s.draining))
	if s.lease != "" && !s.draining {
		earlier(s.claims.next(now))
	}
	return first
}

// InFlight returns the number of attempts in flight.
func (s *Scheduler) InFlight() int { return s.starts.inFlight }

// Done reports whether, after Drain, every attempt is recorded and every webhook
// released.
func (s *Scheduler) Done() bool {
	return s.draining && s.starts.inFlight == 0 && len(s.queues) == 0 && s.claims.underWay == nil &&
		s.results.underWay == nil && len(s.apart) == 0 && len(s.results.attempts)+len(s.results.evicted) == 0
}

// tick does what is due by now.
func (s *Scheduler) tick(now time.Time) {
	for q := s.timers.take(now); q != nil; q = s.timers.take(now) {
		s.polls.mark(q)
		s.enqueue(now, q)
		s.timers.update(now, q)
	}
	for _, q := range s.starts.throttle.release(now) {
		s.starts.requeue(now, q)
	}
	if !now.Before(s.nextSave) {
		s.saveCursors(now)
		s.nextSave = now.Add(saveInterval)
	}
	if s.draining && s.starts.inFlight == 0 {
		for _, q := range s.queues {
			s.evict(q)
		}
	}
}

// saveCursors adds cursors that moved to the next record, and releases idle webhooks.
func (s *Scheduler) saveCursors(now time.Time) {
	s.saved++
	for _, q := range s.queues {
		switch {
		case q.evict.evicting || q.apart:
		case q.idle() && (now.Sub(q.evict.lastUsed) >= s.cfg.Idle || !q.endpoint.On):
			s.evict(q)
		case q.unsaved.cursor || s.saved%skipSaves == 0 && q.done() > q.live.saved:
			s.results.save = append(s.results.save, q)
		}
	}
}

// Stats are figures about a Scheduler.
type Stats struct {
	Webhooks  int // held
	InFlight  int // attempts
	Throttled int // webhooks that wait for a token
	Behind    int // webhooks with something to send that are held here, or by nobody
	Lag       time.Duration
}

// Stats returns figures for metrics. Lag is the age of the oldest event that
// waits for its first attempt.
func (s *Scheduler) Stats(now time.Time) Stats {
	stats := Stats{Webhooks: len(s.queues), InFlight: s.starts.inFlight, Throttled: len(s.starts.throttle.queues), Behind: s.unclaimed}
	for _, q := range s.queues {
		if q.waiting() > 0 || q.live.scanned < q.live.visible {
			stats.Behind++
		}
		if len(q.pending[Live]) > 0 {
			stats.Lag = max(stats.Lag, now.Sub(q.pending[Live][0].Published))
		}
	}
	return stats
}
