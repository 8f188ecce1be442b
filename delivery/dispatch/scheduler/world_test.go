package scheduler

import (
	"container/heap"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
)

// world is a simulated database with its webhooks, receivers, and the processes
// that deliver, in virtual time. Whatever takes time is an action on its calendar.
type world struct {
	t        *rapid.T
	random   *rand.Rand
	cfg      Config
	now      time.Time
	calendar calendar
	serial   int64

	logs      map[string]*simLog
	webhooks  map[Key]*simWebhook
	leases    map[string]time.Time // lease → until
	processes []*process
	started   int // processes ever

	faulty     bool // statements may fail, answers may be lost
	rareSweeps bool // sweeps are rare and find only webhooks that no process holds
}

// simLog is a workspace's log: every entry is an event.
type simLog struct{ published []time.Time }

func (l *simLog) visible() int64 { return int64(len(l.published)) }

// simWebhook is a webhook's rows and its receiver.
type simWebhook struct {
	key      Key
	on       bool
	paused   bool // and on
	pausedAt time.Time
	version  int
	epoch    int
	address  int       // the version that came with it
	movedAt  time.Time // when it was last changed
	kept     int       // what is pending since this epoch is not cancelled
	from     int64     // events after it are for the webhook, in this epoch
	position int64
	holder   string
	health   policy.Health

	replayAfter, replayTo int64

	expired int64 // counted by the scheduler
	wasOff  bool
	fewer   bool // it chose fewer types; see isOptional
	edited  bool // it did at some time

	deliveries map[int64]*simDelivery
	idleSince  time.Time // has work and nothing under way
	locked     time.Time // another transaction has locked its row until then

	receiver receiver
	dead     bool           // the receiver hangs
	unmade   map[int64]bool // positions of attempts that were started and not made
	arrived  map[int64]int
	extra    int // arrivals that kills and lost leases may have doubled
}

// receiver is how a webhook's receiver behaves.
type receiver int

const (
	answers receiver = iota
	failsSometimes
	fails
	hangs
)

// simDelivery is a delivery and, while it is pending, its waiting row.
type simDelivery struct {
	createdAt time.Time
	state     policy.State
	attempts  int
	before    int
	once      bool
	resent    bool // a user sent it again, which is not retried
	byHand    bool // a user sends it while the webhook is paused
	next      time.Time
	epoch     int
}

// process is one scheduler with its effects under way.
type process struct {
	world     *world
	name      int
	scheduler *Scheduler
	lease     string
	dead      bool
	draining  bool
	paused    time.Time  // SIGSTOP until then
	unmade    []*Attempt // attempts that will not be made, and have no answer yet
	inFlight  map[*Attempt]time.Time
	ticking   time.Time
	lastLive  map[Key]int64 // last Live position that was started since the claim
	steps     int           // without time passing
	stepAt    time.Time
}

// action happens at a time; equal times keep their order.
type action struct {
	at     time.Time
	serial int64
	do     func()
}

type calendar []action

func (c calendar) Len() int { return len(c) }
func (c calendar) Less(i, j int) bool {
	return c[i].at.Before(c[j].at) || c[i].at.Equal(c[j].at) && c[i].serial < c[j].serial
}
func (c calendar) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *calendar) Push(x any)   { *c = append(*c, x.(action)) }
func (c *calendar) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

const (
	simLease   = 30 * time.Second
	simTimeout = 10 * time.Second
)

func newWorld(t *rapid.T, faulty bool) *world {
	return &world{
		t: t, random: rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed"))), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), faulty: faulty,
		cfg: Config{
			Policy: policy.Policy{Schedule: policy.Schedule{time.Second, 5 * time.Second, 30 * time.Second}, TurnOffAfter: 3 * time.Minute},
			Bound:  rapid.IntRange(1, 4).Draw(t, "bound"), Limit: rapid.IntRange(4, 40).Draw(t, "limit"),
			CostlyPerSecond: rapid.IntRange(1, 5).Draw(t, "costly a second"),
			Idle:            rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(t, "idle"),
			Retention:       rapid.SampledFrom([]time.Duration{24 * time.Hour, 20 * time.Second}).Draw(t, "retention"), LeaseUse: simLease - simTimeout, CoolDown: 10 * time.Second,
		},
		logs: map[string]*simLog{}, webhooks: map[Key]*simWebhook{}, leases: map[string]time.Time{},
	}
}

// after puts an action on the calendar.
func (w *world) after(d time.Duration, do func()) {
	w.serial++
	heap.Push(&w.calendar, action{w.now.Add(d), w.serial, do})
}

// run lets time pass.
func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	for len(w.calendar) > 0 && !w.calendar[0].at.After(end) {
		a := heap.Pop(&w.calendar).(action)
		w.now = a.at
		a.do()
	}
	w.now = end
}

// takes is a random time that an input or output takes.
func (w *world) takes(longest time.Duration) time.Duration {
	return 100*time.Microsecond + time.Duration(w.random.Int64N(int64(longest)))
}

// chance is true once in so many times, if there are faults.
func (w *world) chance(in int) bool {
	return w.faulty && w.random.IntN(in) == 0
}

func (w *world) addWebhook(k Key, r receiver) *simWebhook {
	if w.logs[k.WorkspaceID] == nil {
		w.logs[k.WorkspaceID] = &simLog{}
	}
	h := &simWebhook{
		key: k, on: true, version: 1, epoch: 1, kept: 1, deliveries: map[int64]*simDelivery{}, unmade: map[int64]bool{}, arrived: map[int64]int{}, receiver: r,
	}
	h.from, h.position = w.logs[k.WorkspaceID].visible(), w.logs[k.WorkspaceID].visible()
	w.webhooks[k] = h
	return h
}

// publish appends events to a workspace; processes are notified, or not.
func (w *world) publish(workspace string, n int) {
	for range n {
		w.logs[workspace].published = append(w.logs[workspace].published, w.now)
	}
	if w.chance(4) {
		return // the notification is lost; a sweep finds it
	}
	w.notify(workspace)
}

// history reports whether an event is past its retention.
func (w *world) history(workspace string, position int64) bool {
	return w.now.Sub(w.logs[workspace].published[position-1]) > w.cfg.Retention
}

func (w *world) notify(workspaces ...string) {
	for _, p := range w.processes {
		w.after(w.takes(5*time.Millisecond), func() { p.tell(Changed{WorkspaceIDs: workspaces}) })
	}
}

func (w *world) start() *process {
	w.started++
	p := &process{
		world: w, name: w.started, scheduler: New(w.cfg), inFlight: map[*Attempt]time.Time{}, lastLive: map[Key]int64{},
	}
	w.processes = append(w.processes, p)
	p.takeLease("")
	w.after(0, p.sweep)
	w.after(simLease/6, p.renew)
	return p
}

// kill ends a process at once. What it had under way may arrive again.
func (w *world) kill(p *process) {
	p.mayDouble()
	w.end(p)
}

func (w *world) end(p *process) {
	p.dead = true
	w.processes = slices.DeleteFunc(w.processes, func(other *process) bool { return other == p })
}

// stop ends a process in good order: attempts that are not handed on are returned.
func (w *world) stop(p *process) {
	if p.draining {
		return
	}
	p.draining = true
	events := []Event{Drain{}}
	for _, a := range p.unmade {
		events = append(events, Returned{Attempt: a})
	}
	p.unmade = nil
	p.tell(events...)
	w.after(5*time.Minute, func() {
		if !p.dead {
			w.t.Fatalf("process %d does not end", p.name)
		}
	})
}

// mayDouble counts what may arrive again, because it is started and not recorded.
func (p *process) mayDouble() {
	for k, q := range p.scheduler.queues {
		p.world.webhooks[k].extra += q.unrecorded
	}
}

// tell steps the scheduler and carries out its effects.
func (p *process) tell(events ...Event) {
	w := p.world
	if p.dead {
		return
	}
	if w.now.Before(p.paused) { // a stopped process sees everything later
		w.after(p.paused.Sub(w.now)+time.Microsecond, func() { p.tell(events...) })
		return
	}
	if p.stepAt.Equal(w.now) {
		p.steps++
	} else {
		p.steps, p.stepAt = 0, w.now
	}
	if p.steps > 500 {
		w.t.Fatalf("process %d made %d steps at one moment", p.name, p.steps)
	}
	for _, e := range events {
		switch e := e.(type) {
		case Attempted:
			delete(p.inFlight, e.Attempt)
		case NotAttempted:
			delete(p.inFlight, e.Attempt)
		case Returned:
			delete(p.inFlight, e.Attempt)
		case LeaseLost:
			p.mayDouble()
		}
	}
	for _, e := range p.scheduler.Step(w.now, events...) {
		p.carryOut(e)
	}
	p.check()
	if p.scheduler.Done() {
		delete(w.leases, p.lease)
		w.end(p)
		return
	}
	p.scheduleTick()
}

func (p *process) scheduleTick() {
	w := p.world
	at := p.scheduler.NextTick(w.now)
	if !p.ticking.IsZero() && !p.ticking.After(at) {
		return // one that comes before is on the calendar
	}
	p.ticking = at
	w.after(max(at.Sub(w.now), time.Microsecond), func() {
		if p.ticking.Equal(at) { // otherwise an earlier one replaced it
			p.ticking = time.Time{}
			p.tell(Tick{})
		}
	})
}

func (p *process) carryOut(e Effect) {
	w := p.world
	switch e := e.(type) {
	case *Poll:
		w.after(w.takes(20*time.Millisecond), func() { p.poll(e) })
	case *Claim:
		w.after(w.takes(20*time.Millisecond), func() { p.claim(e) })
	case Start:
		p.attempt(e.Attempt)
	case *Record:
		w.after(w.takes(20*time.Millisecond), func() { p.record(e) })
	case ChangeHealth:
		w.after(w.takes(20*time.Millisecond), func() { p.changeHealth(e.Change) })
	case TakeLease:
		w.after(w.takes(50*time.Millisecond), func() { p.takeLease(e.Old) })
	case Reconcile:
		w.after(w.takes(20*time.Millisecond), func() { p.reconcile(e) })
	case Notify:
		w.notify(e.WorkspaceIDs...)
	case Paused:
	}
}

// check holds the scheduler to what must be true after every step.
func (p *process) check() {
	s := p.scheduler
	inFlight := 0
	for k, q := range s.queues {
		if q.unrecorded > s.cfg.Bound {
			p.world.t.Fatalf("%v: %d attempts are started and not recorded, at most %d may be", k, q.unrecorded, s.cfg.Bound)
		}
		inFlight += q.inFlight
		if q.done() < q.live.saved {
			p.world.t.Fatalf("%v: the cursor would move back from %d to %d", k, q.live.saved, q.done())
		}
	}
	if len(p.inFlight) > s.cfg.Limit || inFlight > len(p.inFlight) {
		p.world.t.Fatalf("%d attempts are under way, %d of webhooks that are held; at most %d may be", len(p.inFlight), inFlight, s.cfg.Limit)
	}
}

// attempt makes an attempt, or cannot: the receiver answers after a while, or never.
func (p *process) attempt(a *Attempt) {
	w, h := p.world, p.world.webhooks[a.Key()]
	made := !w.chance(10)
	p.checkStart(a, h, made)
	p.inFlight[a] = w.now
	if !made {
		p.unmade = append(p.unmade, a)
		w.after(w.takes(time.Second), func() {
			if at := slices.Index(p.unmade, a); at >= 0 {
				p.unmade = slices.Delete(p.unmade, at, at+1)
				p.tell(NotAttempted{Attempt: a, Err: errors.New("its secret cannot be opened")})
			}
		})
		return
	}
	r := attempt.Result{At: w.now.Truncate(time.Millisecond), Status: 200, Outcome: attempt.OutcomeSuccess}
	took := w.takes(30 * time.Millisecond)
	switch {
	case h.receiver == hangs || h.dead:
		took, r.Status, r.Outcome = simTimeout, 0, attempt.OutcomeTimeout
	case h.receiver == fails, h.receiver == failsSometimes && w.random.IntN(3) == 0:
		r.Status, r.Outcome = 500, attempt.OutcomeAnswered
	}
	r.Duration = took
	w.after(took, func() {
		if p.dead {
			return // it may have arrived
		}
		if r.Outcome == attempt.OutcomeSuccess {
			h.arrived[a.Position]++
		}
		p.tell(Attempted{Attempt: a, Result: r})
	})
}

// checkStart holds an attempt to the rules for starting.
func (p *process) checkStart(a *Attempt, h *simWebhook, made bool) {
	w := p.world
	if w.now.Sub(p.scheduler.leaseFrom) >= w.cfg.LeaseUse {
		w.t.Fatalf("%v: an attempt was started under a lease that may end before it", h.key)
	}
	if a.Source != Retry && w.history(h.key.WorkspaceID, a.Position) {
		w.t.Fatalf("%v: event %d is sent although nobody can look it up", h.key, a.Position)
	}
	w.checkPaused(a, h)
	h.unmade[a.Position] = h.unmade[a.Position] || !made
	switch a.Source {
	case Live:
		if a.Position <= p.lastLive[h.key] && !h.unmade[a.Position] {
			w.t.Fatalf("%v: first attempts are not in log order: %d after %d", h.key, a.Position, p.lastLive[h.key])
		}
		if made {
			p.lastLive[h.key] = max(p.lastLive[h.key], a.Position)
		}
	case Retry:
		if d := h.deliveries[a.Position]; d != nil && d.state == policy.Pending && d.attempts == a.Made && w.now.Before(d.next) {
			w.t.Fatalf("%v: retry of %d at %v, due at %v", h.key, a.Position, w.now, d.next)
		}
	case Replay, sources:
	}
}

// finish lets the world come to rest without further faults, and checks that
// nothing was lost.
func (w *world) finish() {
	w.faulty = false
	for _, k := range w.keys() {
		h := w.webhooks[k]
		w.resume(h)
		h.dead = false
		if h.receiver != failsSometimes {
			h.receiver = answers
		}
	}
	if !slices.ContainsFunc(w.processes, func(p *process) bool { return !p.draining }) {
		w.start()
	}
	w.run(10 * time.Minute)
	for _, k := range slices.SortedFunc(maps.Keys(w.webhooks), Key.compare) {
		w.checkDelivered(w.webhooks[k])
	}
}

// checkDelivered checks that every event is delivered, or failed after all its
// attempts.
func (w *world) checkDelivered(h *simWebhook) {
	if !h.on {
		return
	}
	expired := int64(0)
	for p := h.from + 1; p <= w.logs[h.key.WorkspaceID].visible(); p++ {
		d := h.deliveries[p]
		if d == nil && h.edited && isOptional(p) {
			continue
		}
		if d == nil && w.history(h.key.WorkspaceID, p) {
			expired++
			continue
		}
		if d == nil {
			w.t.Fatalf("%v: event %d of %d was lost; the cursor is at %d, held by %q", h.key, p, w.logs[h.key.WorkspaceID].visible(), h.position, h.holder)
		}
		if d.state == policy.Cancelled && !h.wasOff {
			w.t.Fatalf("%v: delivery of %d was cancelled, though the webhook was never off", h.key, p)
		}
		if d.state == policy.Pending || d.state == policy.Failed && d.attempts <= len(w.cfg.Policy.Schedule) && !d.resent {
			w.t.Fatalf("%v: delivery of %d is left %+v", h.key, p, *d)
		}
	}
	if !h.wasOff && !h.edited && h.expired != expired { // being turned off skips events, too
		w.t.Fatalf("%v: %d events were counted as history, want %d", h.key, h.expired, expired)
	}
	doubled := 0
	for _, n := range h.arrived {
		doubled += n - 1
	}
	if doubled > h.extra {
		w.t.Fatalf("%v: %d messages arrived again, at most %d could", h.key, doubled, h.extra)
	}
}

func (w *world) String() string {
	return fmt.Sprintf("%d processes, %d webhooks", len(w.processes), len(w.webhooks))
}

// keys are the webhooks in order.
func (w *world) keys() []Key { return slices.SortedFunc(maps.Keys(w.webhooks), Key.compare) }
