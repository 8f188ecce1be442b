package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// bench is a scheduler whose webhooks have endless messages, and whose reads take
// no time.
type bench struct {
	*Scheduler
	now     time.Time
	started []*Attempt
	records []*Record
	changes []*HealthChange
}

func newBench(change func(*Config)) *bench {
	cfg := Config{Policy: policy.Policy{TurnOffAfter: 72 * time.Hour}, Bound: 10, Limit: 1000, CostlyPerSecond: 5, Idle: time.Hour, Retention: 48 * time.Hour, LeaseUse: 24 * time.Hour, CoolDown: time.Second}
	change(&cfg)
	b := &bench{Scheduler: New(cfg), now: start}
	b.step(LeaseTaken{Lease: "lease", At: start})
	return b
}

func (b *bench) step(events ...Event) {
	for len(events) > 0 {
		effects := b.Step(b.now, events...)
		events = nil
		for _, e := range effects {
			switch e := e.(type) {
			case Start:
				b.started = append(b.started, e.Attempt)
			case *Record:
				b.records = append(b.records, e)
			case ChangeHealth:
				b.changes = append(b.changes, e.Change)
			case *Poll:
				answer := Polled{Poll: e, Results: make([]PollResult, len(e.Requests))}
				for i, r := range e.Requests {
					a := &answer.Results[i]
					a.Found, a.Visible, a.LiveTo = true, 1_000_000, r.After+int64(r.LiveLimit)
					for p := r.After + 1; p <= a.LiveTo; p++ {
						a.Attempts[Live] = append(a.Attempts[Live], &Attempt{Position: p, Published: start})
					}
				}
				events = append(events, answer)
			}
		}
	}
}

// hold gives the scheduler a webhook.
func (b *bench) hold(id string, change func(*Loaded)) *queue {
	w := Loaded{Key: Key{"acme", id}, Endpoint: &Endpoint{On: true, Version: 1, Epoch: 1}}
	if change != nil {
		change(&w)
	}
	b.claims.underWay = &Claim{Lease: b.lease}
	b.step(Claimed{Claim: b.claims.underWay, Endpoints: []Loaded{w}})
	return b.queues[w.Key]
}

// end answers attempts; they are recorded at once.
func (b *bench) end(r attempt.Result, list ...*Attempt) {
	for _, a := range list {
		b.step(Attempted{Attempt: a, Result: r})
	}
	b.store()
}

// store answers records until there are none.
func (b *bench) store() {
	for b.now = b.now.Add(linger); ; {
		b.step(Tick{})
		if len(b.records) == 0 {
			return
		}
		r := b.records[0]
		b.records = b.records[1:]
		b.step(Recorded{Record: r})
	}
}

// takeStarted returns what was started since the last call, by webhook.
func (b *bench) takeStarted() (list []*Attempt, byWebhook map[string]int) {
	list, byWebhook = b.started, map[string]int{}
	for _, a := range list {
		byWebhook[a.Key().WebhookID]++
	}
	b.started = nil
	return list, byWebhook
}

func success() attempt.Result {
	return attempt.Result{At: start, Outcome: attempt.OutcomeSuccess, Status: 200}
}

func costly() attempt.Result { return attempt.Result{At: start, Outcome: attempt.OutcomeTimeout} }

// TestWhenResultsAreRecorded: results are batched, unless a webhook needs its
// places.
func TestWhenResultsAreRecorded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		results  int
		waits    bool // a webhook waits for its places
		inFlight int  // in the process
		failing  bool // that webhook is failing
		draining bool
		want     time.Duration // after the first; -1: never
	}{
		{name: "nothing", want: -1},
		{name: "one result", results: 1, want: linger},
		{name: "a webhook waits for its places", results: 1, waits: true, want: 0},
		{name: "it waits, and others are about to end", results: 1, waits: true, inFlight: manyInFlight, want: urgentLinger},
		{name: "it waits, but is failing", results: 1, waits: true, inFlight: manyInFlight, failing: true, want: linger},
		{name: "a full batch", results: batchSize, want: 0},
		{name: "the end", results: 1, draining: true, want: 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := New(Config{Bound: 2, Limit: 1000, CostlyPerSecond: 1})
			q := newQueue(&Loaded{Endpoint: &Endpoint{On: true}}, start)
			if test.failing {
				q.health.FailingSince = start
			}
			for range test.results {
				s.results.add(&Attempt{queue: q}, start)
			}
			if test.waits {
				q.unrecorded, q.pending[Live] = 2, []*Attempt{{queue: q}}
				s.enqueue(start, q)
			}
			due, want := s.results.due(start, test.inFlight, test.draining), start.Add(test.want)
			if test.want < 0 {
				want = time.Time{}
			}
			if !due.Equal(want) {
				t.Errorf("due at %v, want %v", due, want)
			}
			s.results.underWay = &Record{}
			if due := s.results.due(start, test.inFlight, test.draining); !due.IsZero() {
				t.Errorf("due at %v although a record is under way", due)
			}
		})
	}
}

// TestSweepReadsForThoseWhoNeedIt: a webhook whose receiver hangs has something
// open in the database at every sweep, but nothing new to be read.
func TestSweepReadsForThoseWhoNeedIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what    string
		visible int64
		read    time.Time
		want    bool
	}{
		{"nothing new, read a moment ago", 7, start, false},
		{"a retry is due, read a moment ago", 0, start, false},
		{"a notification was lost", 8, start, true},
		{"not read for long", 7, start.Add(-rereadInterval), true},
	} {
		s := New(Config{Bound: 10, Limit: 100, CostlyPerSecond: 1})
		q := newQueue(&Loaded{Key: Key{"acme", "wh"}, Endpoint: &Endpoint{On: true}}, start)
		q.live.visible, q.poll.at = 7, c.read
		s.queues[q.key] = q
		s.found(start, []Candidate{{q.key, c.visible}, {Key{"acme", "other"}, 1}})
		if s.unclaimed != 1 {
			t.Errorf("%s: %d are unclaimed, want 1", c.what, s.unclaimed)
		}
		if q.poll.dirty != c.want {
			t.Errorf("%s: dirty %t", c.what, q.poll.dirty)
		}
	}
}

// TestThrottle: webhooks whose attempts keep failing expensively share the tokens
// evenly, and none that answers waits for them.
func TestThrottle(t *testing.T) {
	t.Parallel()
	const perSecond, dead = 5, 3
	b := newBench(func(c *Config) { c.CostlyPerSecond = perSecond })
	for i := range dead {
		b.hold(fmt.Sprintf("wh_%d", i), func(w *Loaded) { w.Health = policy.Health{FailingSince: start} })
	}
	b.hold("wh_fine", nil)
	for range 20 {
		list, _ := b.takeStarted()
		for _, a := range list {
			if a.Key().WebhookID == "wh_fine" {
				b.end(success(), a)
			} else {
				b.end(costly(), a)
			}
		}
	}
	b.takeStarted() // the burst is used up by now, or soon
	for range 100 {
		b.now = b.now.Add(100 * time.Millisecond)
		b.step(Tick{})
		list, _ := b.takeStarted()
		b.end(costly(), list...)
	}
	const seconds = 60
	total := map[string]int{}
	for range seconds * 10 {
		b.now = b.now.Add(100*time.Millisecond - linger)
		b.step(Tick{})
		list, by := b.takeStarted()
		for id, n := range by {
			total[id] += n
		}
		b.end(costly(), list...)
	}
	for i := range dead {
		if n := total[fmt.Sprintf("wh_%d", i)]; n < seconds*perSecond/(dead+1)-2 {
			t.Errorf("wh_%d had %d attempts in %d s, want about %d", i, n, seconds, seconds*perSecond/(dead+1))
		}
	}
	if b.Stats(b.now).Throttled == 0 {
		t.Error("nobody is throttled")
	}
	// One whose receiver is back is throttled no longer.
	q := b.queues[Key{"acme", "wh_1"}]
	b.starts.throttle.attempted(q, false)
	b.starts.requeue(b.now, q)
	b.step(Tick{})
	if _, by := b.takeStarted(); by["wh_1"] != b.cfg.Bound {
		t.Errorf("%d attempts of the webhook whose receiver is back were started, want %d", by["wh_1"], b.cfg.Bound)
	}
}

// TestNobodyJumpsTheQueue: a queue that comes while others wait for a token waits
// behind them, although there is a token at that moment.
func TestNobodyJumpsTheQueue(t *testing.T) {
	t.Parallel()
	th := newThrottle(1)
	if !th.bucket.AllowN(start, burstSeconds-1) { // one is left
		t.Fatal("there is no burst")
	}
	first, second := &queue{}, &queue{}
	first.costly.failures, second.costly.failures = costlyAfter, costlyAfter
	th.queues = []*queue{first}
	if !th.waitForToken(second, start) || len(th.queues) != 2 || th.queues[1] != second {
		t.Fatalf("it does not wait behind the first: %v", th.queues)
	}
	if list := th.release(start); len(list) != 1 || list[0] != first || th.waitForToken(first, start) {
		t.Error("the first does not get the token")
	}
	if next := th.next(start); next.Before(start.Add(time.Second)) || next.After(start.Add(time.Second+time.Millisecond)) {
		t.Errorf("the second gets a token at %v, want a second later", next)
	}
}

// TestClaimUnderALostLease: what was claimed under a lease that is over belongs to
// nobody.
func TestClaimUnderALostLease(t *testing.T) {
	t.Parallel()
	b := newBench(func(*Config) {})
	b.step(Found{Candidates: []Candidate{{Key: Key{"acme", "wh"}}}})
	claim := b.claims.underWay
	if claim == nil {
		t.Fatal("nothing is claimed")
	}
	b.step(LeaseLost{Lease: "lease"}, LeaseTaken{Lease: "another", At: b.now})
	b.step(Claimed{Claim: claim, Endpoints: []Loaded{{Key: Key{"acme", "wh"}, Endpoint: &Endpoint{On: true}}}})
	if len(b.queues) != 0 {
		t.Error("a webhook is held that was claimed under the old lease")
	}
}

// TestEventDuringARelease: an event that comes while an idle webhook is released, when
// nobody can claim it yet, has the webhook claimed right after it, not by a sweep.
func TestEventDuringARelease(t *testing.T) {
	t.Parallel()
	b := newBench(func(c *Config) { c.Idle = time.Minute })
	q := newQueue(&Loaded{Key: Key{"acme", "wh"}, Endpoint: &Endpoint{On: true}}, b.now)
	b.queues[q.key], b.byWorkspace["acme"] = q, []*queue{q}
	b.now = b.now.Add(time.Minute)
	b.step(Tick{})
	if len(b.records) != 1 || len(b.records[0].Releases) != 1 {
		t.Fatal("the idle webhook is not released")
	}
	b.step(Changed{WorkspaceIDs: []string{"acme"}})
	b.step(Claimed{Claim: b.claims.underWay}) // it was not free yet
	b.step(Recorded{Record: b.records[0]})
	b.now = b.now.Add(fruitlessPause)
	b.step(Tick{})
	if claim := b.claims.underWay; claim == nil || len(claim.Keys) != 1 || claim.Keys[0] != q.key {
		t.Errorf("after the release %+v is claimed, want the webhook", claim)
	}
	if len(b.byWorkspace) != 0 {
		t.Error("a released webhook is kept")
	}
}

// TestReleaseWaitsForWhatIsApart: a webhook is released after what is written apart of it,
// which counts what it has passed over.
func TestReleaseWaitsForWhatIsApart(t *testing.T) {
	t.Parallel()
	b := newBench(func(c *Config) { c.Idle = time.Minute })
	q := newQueue(&Loaded{Key: Key{"acme", "wh"}, Endpoint: &Endpoint{On: true}}, b.now)
	q.live.scanned, q.live.visible, q.unsaved.expired[Live] = 3, 3, 3
	q.unsaved.cursor = true
	b.queues[q.key], b.byWorkspace["acme"] = q, []*queue{q}
	b.now = b.now.Add(saveInterval)
	b.step(Tick{})
	if len(b.records) != 1 || len(b.records[0].Cursors) != 1 || b.records[0].Cursors[0].Expired != 3 {
		t.Fatalf("the cursor is not stored: %+v", b.records)
	}
	b.now = b.now.Add(time.Minute)
	b.step(Tick{}) // it is idle now, and to be released
	b.step(Recorded{Record: b.records[0], Locked: b.records[0].Split()})
	if len(b.records) != 2 || !b.records[1].Apart {
		t.Fatalf("while its row is locked %+v is written", b.records[1:])
	}
	b.step(Recorded{Record: b.records[1]})
	if len(b.records) != 3 || len(b.records[2].Releases) != 1 {
		t.Errorf("after that %+v is written, want its release", b.records[2:])
	}
}

// TestTurnedOffDuringAnAttempt: what ends after the webhook was turned off is not
// retried.
func TestTurnedOffDuringAnAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(func(c *Config) { c.Policy = policy.Policy{Schedule: policy.DefaultSchedule(), TurnOffAfter: time.Hour} })
	q := b.hold("wh", nil)
	list, _ := b.takeStarted()
	q.endpoint = &Endpoint{Epoch: 3, Version: 3, Kept: 3, On: true} // off and on again
	b.step(Attempted{Attempt: list[0], Result: costly()})
	if list[0].state != policy.Cancelled {
		t.Errorf("the delivery is %s, want cancelled", list[0].state)
	}
}

// TestTheRestIsClaimedAtOnce: when a claim did not take all that it was for, the next one is
// for the same workspaces and webhooks, at once.
func TestTheRestIsClaimedAtOnce(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	s.Step(start, LeaseTaken{Lease: "lease", At: start})
	claimIn := func(effects []Effect) *Claim {
		for _, e := range effects {
			if c, ok := e.(*Claim); ok {
				return c
			}
		}
		return nil
	}
	first := claimIn(s.Step(start, Changed{WorkspaceIDs: []string{"acme"}}, Found{Candidates: []Candidate{{Key: Key{"other", "wh"}}}}))
	taken := []Loaded{{Key: Key{"acme", "wh"}, Endpoint: &Endpoint{}}}
	second := claimIn(s.Step(start, Claimed{Claim: first, Endpoints: taken, More: true}))
	if second == nil || !slices.Equal(second.WorkspaceIDs, first.WorkspaceIDs) || !slices.Equal(second.Keys, first.Keys) {
		t.Fatalf("the next claim is %+v, want the same as %+v", second, first)
	}
	if third := claimIn(s.Step(start, Claimed{Claim: second})); third != nil {
		t.Errorf("%+v is claimed when nothing is left", third)
	}
}

// A process that takes over a webhook goes on with a recovery that a crash has ended, once.
func TestRecoveryOfADeadProcess(t *testing.T) {
	t.Parallel()
	b := newBench(func(*Config) {})
	b.hold("well", nil)
	q := b.hold("recovered", func(w *Loaded) { w.Health.Recovered = start.UnixMilli() })
	if len(b.changes) != 1 || b.changes[0].Key.WebhookID != "recovered" || b.changes[0].Change != policy.Recovered || !b.changes[0].At.Equal(start) {
		t.Fatalf("%+v", b.changes)
	}
	b.step(HealthChanged{&HealthChange{Change: policy.Recovered, At: start.Add(-time.Hour), queue: q}})
	if q.health.Recovered == 0 {
		t.Error("the end of an earlier recovery ended this one")
	}
	b.step(HealthChanged{b.changes[0]})
	if q.health.Recovered != 0 {
		t.Errorf("still to be recovered since %d", q.health.Recovered)
	}
}
