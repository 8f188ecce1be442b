package eventlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// consumer does the work of one Subscribe: a goroutine marks workspaces with new entries as dirty,
// and workers claim them and hand the claims to the handler. The solo worker takes slow work, so
// that most workspaces do not wait for it. The workers for mass changes take entries that change
// very many rows. One of them never takes a long claim, so that shorter mass changes do not wait
// for long ones.
type consumer struct {
	claimer
	cfg   *SubscriberConfig
	dirty *dirtySet
	long  places // for long claims: one fewer than the workers for mass changes, but at least one
	slots places // for claims in flight; nil: only the pools limit them
	out   chan *message.Message

	yielding sync.WaitGroup // goroutines that mark workspaces a moment later
	retried  bool           // whether quarantined workspaces got the retry of a start; belongs to markDirty

	sweeps, claims flow.Outage // log when these begin to fail and work again
}

func newConsumer(cfg *SubscriberConfig, name string) *consumer {
	c := &consumer{
		claimer: claimer{
			pool: cfg.Pool, massPool: cfg.MassPool, auxPool: cfg.AuxPool, clock: cfg.Clock, consumer: name, rules: cfg.Rules, entries: cfg.Entries,
			after: cfg.After, public: cfg.Public, noData: cfg.NoData, process: uuid.NewString(),
		},
		cfg:   cfg,
		dirty: newDirtySet(),
		long:  make(places, max(1, cfg.MassWorkers-1)),
		out:   make(chan *message.Message),
	}
	if cfg.claims > 0 {
		c.slots = make(places, cfg.claims)
	}
	logger := cfg.Logger.With("consumer", name)
	c.sweeps = flow.Outage{Logger: logger, Failing: "cannot sweep for new entries; trying again every few seconds", Working: "sweeps for new entries work again"}
	c.claims = flow.Outage{Logger: logger, Failing: "cannot claim entries; trying again until it works", Working: "entries are claimed again"}
	return c
}

func (c *consumer) run(ctx context.Context) {
	defer close(c.out)
	var group sync.WaitGroup
	group.Go(func() { c.markDirty(ctx) })
	for range c.cfg.Workers {
		group.Go(func() { c.work(ctx) })
	}
	group.Go(func() { c.workSolo(ctx) })
	for range c.cfg.MassWorkers {
		group.Go(func() { c.workMass(ctx) })
	}
	group.Wait()
}

// markDirty marks workspaces when notifications arrive. It also sweeps for workspaces whose
// notification was lost or whose next attempt is due.
func (c *consumer) markDirty(ctx context.Context) {
	appended, unsubscribe := c.cfg.Notifier.Subscribe(c.topic())
	defer unsubscribe()
	defer c.yielding.Wait()
	if c.consumer == ReadModels {
		c.cfg.Notifier.projects.Store(true)
	}
	sweep := time.NewTimer(0)
	defer sweep.Stop()
	pace := sweepPace{least: c.cfg.Sweep}
	for {
		select {
		case <-ctx.Done():
			return
		case <-appended.C:
			if c.cfg.Gather > 0 && !c.cfg.Sleep(ctx, untilNext(c.cfg.Gather)) {
				return
			}
			// This process claims its own appends at once: it is the first to know of them.
			own, others, all := appended.takeApart()
			c.dirty.mark(own, shared)
			c.markYielding(ctx, others)
			if !all {
				continue
			}
		case <-sweep.C:
		}
		began := time.Now() // not the injected clock: it measures the sweep itself
		err := c.sweep(ctx)
		if ctx.Err() != nil {
			return
		}
		c.sweeps.LogTransition(ctx, err)
		sweep.Reset(pace.pause(time.Since(began)))
	}
}

// sweepPace decides how long a consumer waits between two sweeps.
type sweepPace struct {
	least  time.Duration
	before time.Duration // how long the previous sweep took
}

// pause returns how long to wait after a sweep, from how long it took. Sweeps over many workspaces
// take at most 1 % of the time. A single slow sweep does not delay the next one: it had to wait for
// a failover or a locked table, and the consumer may have lost notifications meanwhile.
func (p *sweepPace) pause(took time.Duration) time.Duration {
	pause := max(p.least, 100*min(took, p.before))
	p.before = took
	return pause
}

// untilNext returns the time until the next multiple of d since the epoch. It does not use the
// injected clock, which may stand still.
func untilNext(d time.Duration) time.Duration {
	return d - time.Duration(time.Now().UnixNano()%int64(d))
}

// topic returns the topic that announces entries to claim.
func (c *consumer) topic() Topic {
	if c.after == "" {
		return TopicAppended
	}
	return TopicProjected // every other consumer comes after the read models
}

// sweep marks every workspace that is behind and may be tried. The first one gives quarantined
// workspaces another try.
func (c *consumer) sweep(ctx context.Context) error {
	if !c.retried {
		if err := c.retryQuarantined(ctx); err != nil {
			return err
		}
		c.retried = true
	}
	if c.after != "" {
		if _, err := c.makeCheckpoints(ctx); err != nil {
			return err
		}
	}
	healthy, failing, err := c.behind(ctx)
	c.markYielding(ctx, healthy)
	c.dirty.mark(failing, c.failing())
	return err
}

// behind returns the workspaces that are behind and may be tried, healthy and failing ones apart.
// Claims look rows up by key, with other plans turned off. This query reads two whole tables, so it
// turns on scans, hash joins and sorts: a third of the time and a fortieth of the pages.
func (c *consumer) behind(ctx context.Context) (healthy, failing []string, err error) {
	b := &pgx.Batch{}
	b.Queue(`SELECT set_config('enable_seqscan', 'on', true), set_config('enable_hashjoin', 'on', true), set_config('enable_sort', 'on', true)`)
	b.Queue(c.sweepSQL(), c.consumer, c.clock()).Query(func(rows pgx.Rows) error {
		var (
			id    string
			fails bool
		)
		for rows.Next() {
			if err := rows.Scan(&id, &fails); err != nil {
				return fmt.Errorf("read the workspace: %w", err)
			}
			if fails {
				failing = append(failing, id)
			} else {
				healthy = append(healthy, id)
			}
		}
		return nil
	})
	if err := c.auxPool.SendBatch(ctx, b).Close(); err != nil {
		return nil, nil, fmt.Errorf("find workspaces that are behind: %w", err)
	}
	return healthy, failing, nil
}

// failing returns how failing workspaces are claimed.
func (c *consumer) failing() claiming {
	if c.cfg.Outside != nil {
		return solo
	}
	return isolated
}

// await waits until the handler can work.
func (c *consumer) await(ctx context.Context) {
	if c.cfg.Outside != nil {
		c.cfg.Outside.Await(ctx)
	}
}

// work makes one claim after another.
//
// The number of workspaces in a claim adapts to the load. If each has few entries, many share a
// transaction. If some have a backlog, few do, so that their segments are long. Both keep the cost
// per entry low.
func (c *consumer) work(ctx context.Context) {
	most, least := c.cfg.Workspaces, 1
	if c.cfg.Outside != nil {
		least = c.cfg.Outside.Workspaces
	}
	for {
		c.await(ctx)
		ids, how := c.dirty.take(ctx, most)
		if len(ids) == 0 {
			return
		}
		full := c.claimAndHandle(ctx, ids, how)
		switch {
		case 2*full > len(ids):
			most = max(least, len(ids)/2)
		case full == 0:
			most = min(2*most, c.cfg.Workspaces)
		}
	}
}

// soloDelay is how long a process does other work before it makes solo and mass claims, whose
// entries may crash it. Without the delay, a process that something else kills soon after every
// start would die at the same entry each time, and the entry would be blamed.
const soloDelay = time.Second

// workSolo makes one solo claim after another.
func (c *consumer) workSolo(ctx context.Context) {
	if !flow.Sleep(ctx, soloDelay) {
		return
	}
	for c.await(ctx); ; c.await(ctx) {
		id := c.dirty.takeOne(ctx, solo)
		if id == "" {
			return
		}
		c.claimAndHandle(ctx, []string{id}, solo)
	}
}

// workMass makes one claim for a mass change after another.
func (c *consumer) workMass(ctx context.Context) {
	if !flow.Sleep(ctx, soloDelay) {
		return
	}
	for c.await(ctx); ; c.await(ctx) {
		id := c.dirty.takeOne(ctx, mass)
		if id == "" {
			return
		}
		c.claimAndHandle(ctx, []string{id}, mass)
		c.workLong(ctx)
	}
}

// workLong makes long claims while a place is free and a workspace waits for one. A worker calls it
// after each mass claim, because that claim may have freed a place or queued its workspace. So no
// workspace waits while a place is free.
func (c *consumer) workLong(ctx context.Context) {
	for ctx.Err() == nil && c.dirty.waits(long) && c.long.take() {
		if id := c.dirty.takeOneNow(&c.dirty.long); id != "" {
			c.claimAndHandle(ctx, []string{id}, long)
		}
		c.long.give()
	}
}

// claimAndHandle makes one claim and has it handled. It returns how many of the workspaces may have
// more entries than the claim took.
func (c *consumer) claimAndHandle(ctx context.Context, ids []string, how claiming) (full int) {
	if c.slots != nil {
		select {
		case c.slots <- struct{}{}:
			defer c.slots.give()
		case <-ctx.Done():
			return 0
		}
	}
	claim, err := c.claim(ctx, ids, how)
	if err != nil {
		if ctx.Err() != nil {
			return 0
		}
		if pg.Locked(err) {
			c.leaveLocked(ctx, ids, err)
			return 0
		}
		c.claims.LogTransition(ctx, err)
		flow.Sleep(ctx, retryPause)
		c.dirty.done(ids, all(how))
		return 0
	}
	c.claims.LogTransition(ctx, nil)
	if claim.deadly != nil {
		c.quarantineDeadly(ctx, claim, ids)
		return 0
	}
	if len(claim.Segments) == 0 {
		pg.Rollback(ctx, claim.Tx)
		c.dirty.done(ids, func(id string) claiming { return claim.left[id] })
		return 0
	}
	return c.handle(ctx, claim, ids, how)
}

// leaveLocked deals with a claim that failed because another transaction has locked a row of one of
// its workspaces. Each workspace is then tried alone. One that was alone waits for the next sweep,
// so that it does not block a worker.
func (c *consumer) leaveLocked(ctx context.Context, ids []string, reason error) {
	next := isolated
	if len(ids) == 1 {
		next = notAtAll
		c.cfg.Logger.WarnContext(ctx, "cannot claim entries, because another transaction has locked a row; retrying after the next sweep",
			"consumer", c.consumer, "workspace", ids[0], "error", reason)
	}
	c.dirty.done(ids, all(next))
}

// finishTimeout bounds the statements after a handler. They go on when the program's context ends.
const finishTimeout = 30 * time.Second

// handle hands a claim to the handler and then commits it or rolls it back. It
// returns how many of the workspaces may have more entries than the claim took.
func (c *consumer) handle(ctx context.Context, claim *Claim, ids []string, how claiming) (full int) {
	lasting := context.WithoutCancel(ctx)
	if how == mass {
		claim.places = c.long
		defer func() {
			if claim.placed {
				c.long.give()
			}
		}()
	}
	working, cutOff := context.WithCancelCause(lasting)
	defer cutOff(nil)
	untold := context.AfterFunc(ctx, func() {
		if flow.Sleep(working, c.cfg.Grace) {
			cutOff(ErrStopped)
		}
	})
	defer untold()
	msg, err := claim.message(working)
	if err == nil {
		select {
		case c.out <- msg:
			err = outcomeOf(msg, claim)
		case <-ctx.Done():
			err = ErrStopped
		}
	}
	if cause := context.Cause(working); err != nil && cause != nil {
		err = cause
	}
	finish, cancel := context.WithTimeout(lasting, finishTimeout)
	defer cancel()
	if err == nil {
		err = claim.commit(finish, c.clock())
	}
	if err != nil {
		pg.Rollback(finish, claim.Tx)
		c.markEnded(finish, claim, false)
		c.failed(finish, claim, ids, err)
		return 0
	}
	c.markEnded(finish, claim, true)
	next := claim.left
	var moved []string
	for i := range claim.Segments {
		s := &claim.Segments[i]
		if len(s.Entries) > 0 {
			moved = append(moved, s.WorkspaceID)
		}
		if s.failures > 0 && s.End() >= s.failedTo {
			c.cfg.Logger.InfoContext(ctx, "the entries that failed are handled, and the workspace goes on as usual",
				"consumer", c.consumer, "workspace", s.WorkspaceID, "through", s.End(), "failures", s.failures)
		}
		switch {
		case s.next != notAtAll:
			next[s.WorkspaceID] = s.next
		case s.failures > 0 && s.End() < s.failedTo:
			next[s.WorkspaceID] = c.failing() // until the failing entry is reached
		case s.full:
			next[s.WorkspaceID] = shared
			full++
		}
	}
	c.dirty.done(ids, func(id string) claiming { return next[id] })
	if c.consumer == ReadModels { // nothing waits for others
		c.cfg.Notifier.Notify(TopicProjected, moved...)
	}
	return full
}

// outcomeOf waits until the handler acks or nacks, and returns its error.
func outcomeOf(msg *message.Message, claim *Claim) error {
	select {
	case <-msg.Acked():
		return nil
	case <-msg.Nacked():
	}
	if claim.err != nil {
		return claim.err
	}
	return errors.New("the handler nacked without an error")
}

// failed deals with a claim that was rolled back. If it has several workspaces, the one that fails
// is not known, so each is tried alone. If it has one, the failure is recorded. A handler that was
// stopped did not fail.
func (c *consumer) failed(ctx context.Context, claim *Claim, ids []string, reason error) {
	if errors.Is(reason, ErrStopped) {
		c.dirty.done(ids, all(shared))
		return
	}
	if errors.Is(reason, ErrTooLong) {
		c.dirty.done(ids, all(long))
		return
	}
	if len(claim.Segments[0].Entries) == 0 { // the handler has left all entries to a later claim
		c.dirty.done(ids, all(shared))
		return
	}
	if len(claim.Segments) > 1 {
		c.cfg.Logger.WarnContext(ctx, "cannot handle a claim; trying each of its workspaces alone",
			"consumer", c.consumer, "workspaces", len(claim.Segments), "error", reason)
		c.dirty.done(ids, all(isolated))
		return
	}
	s := &claim.Segments[0]
	r, err := c.recordFailure(ctx, s, reason)
	switch {
	case err != nil:
		c.cfg.Logger.ErrorContext(ctx, "cannot process entries of a workspace, and cannot record the failure; retrying",
			"consumer", c.consumer, "workspace", s.WorkspaceID, "from", s.After+1, "through", s.End(), "error", reason, "record_error", err)
		flow.Sleep(ctx, retryPause)
	case r.quarantined:
		c.cfg.Logger.ErrorContext(ctx, "cannot handle an entry; its workspace is quarantined before that entry, other workspaces continue",
			"consumer", c.consumer, "workspace", s.WorkspaceID, "position", s.After+1, "error", reason, "retry_in", r.wait)
	default:
		c.cfg.Logger.WarnContext(ctx, "cannot process entries of a workspace; retrying",
			"consumer", c.consumer, "workspace", s.WorkspaceID, "from", s.After+1, "through", s.End(), "failures", r.failures, "error", reason, "retry_in", r.wait)
	}
	if err != nil || r.wait == 0 {
		c.dirty.done(ids, all(c.failing()))
		return
	}
	// A sweep marks it again when its wait is over.
	c.dirty.done(ids, func(id string) claiming {
		if id == s.WorkspaceID {
			return notAtAll
		}
		return shared
	})
}

// SubscriberConfig configures a Subscriber.
type SubscriberConfig struct {
	// Each claim in flight holds a connection of Pool, or of MassPool if it changes very many rows.
	// Writes alongside a claim use AuxPool. Nothing that holds a connection of AuxPool may wait for
	// another one.
	//
	// MassPool nil: Pool. AuxPool nil: Pool, which then needs at least two connections; claims in
	// flight use all of them but one.
	Pool, MassPool, AuxPool pg.DB

	Notifier *Notifier
	Clock    func() time.Time
	Logger   *slog.Logger

	// Rules is the version of the rules by which the handler makes its rows. It is stored with the
	// checkpoints. 0: the handler makes no rows.
	Rules int

	// After is another consumer, such as ReadModels, that must have handled an entry
	// before this one gets it; empty: none. Workspaces get their checkpoints, at position
	// 0, when they are first claimed.
	After string

	// Public adds the public forms to the segments. NoData leaves out the entries' data, for
	// handlers that need none.
	Public, NoData bool

	// Gather is how long notifications are gathered before the workspaces are claimed, so that the
	// handler writes less often if entries come one by one: a process claims a workspace once in
	// that time, unless it has more entries than a claim takes. It is counted from the epoch, so
	// that all processes claim at the same moment and usually one of them gets the workspace.
	// Default: they are claimed at once.
	Gather time.Duration

	// Sleep waits while notifications are gathered, and returns false if ctx ended first; nil:
	// flow.Sleep.
	Sleep func(ctx context.Context, d time.Duration) bool

	// Outside is for a handler that works on something outside the database; nil: it does not.
	Outside *Outside

	Workers     int           // maximum claims in flight, not counting solo claims and mass changes; default 4
	MassWorkers int           // maximum claims in flight that change very many rows (Claim.LeaveMass); 0: the handler leaves none
	Workspaces  int           // maximum workspaces per claim; default 64
	Entries     int           // maximum entries per claim; default 1000
	Sweep       time.Duration // minimum time between two sweeps; default 2 s

	// Grace is how long a handler may go on with a claim when the Subscriber is stopped. Its context
	// then ends and the claim is rolled back, so that a silent connection does not hold up the end
	// of the program. Default 10 s.
	Grace time.Duration

	claims int // maximum claims in flight if there is no AuxPool; 0: only the pools limit them
}

// Outside configures a handler that works on something outside the database, such as a message
// broker. That work is not rolled back with the claim, so the handler does it at least once. The
// handler shortens its claim to what it could do (Claim.Shorten, Claim.LeaveFrom). The solo worker
// claims failing workspaces, so that their timeouts block no other worker.
type Outside struct {
	// Await is called before each claim. It returns when the handler can work, or when ctx has
	// ended. No transaction is open meanwhile.
	Await func(ctx context.Context)

	// Workspaces is the minimum number of workspaces in a claim while that many have a backlog,
	// because the handler works on them at the same time.
	Workspaces int
}

// Subscriber gives the log to a handler of the Watermill Router. Each message carries a claim: the
// next entries of some workspaces, and the transaction that has locked their checkpoints. On Ack
// the checkpoints move and everything is committed, so each entry is handled exactly once. On Nack
// everything is rolled back and tried again. See ClaimOf.
//
// The topic of Subscribe is the consumer's name.
type Subscriber struct {
	cfg       SubscriberConfig
	stop      chan struct{} // closed by Close
	once      sync.Once
	consumers sync.WaitGroup
}

// NewSubscriber makes a Subscriber; it starts nothing.
func NewSubscriber(cfg SubscriberConfig) (*Subscriber, error) {
	if cfg.Pool == nil || cfg.Notifier == nil || cfg.Clock == nil || cfg.Logger == nil {
		return nil, errors.New("eventlog: SubscriberConfig needs a Pool, a Notifier, a Clock and a Logger")
	}
	if cfg.AuxPool == nil {
		if pg.Size(cfg.Pool) < 2 {
			return nil, errors.New("eventlog: SubscriberConfig.Pool needs two connections: one for a claim, and one for what is written beside it")
		}
		cfg.AuxPool, cfg.claims = cfg.Pool, pg.Size(cfg.Pool)-1
	}
	if cfg.MassPool == nil {
		cfg.MassPool = cfg.Pool
	}
	cfg.Workers = cmp.Or(cfg.Workers, 4)
	cfg.Workspaces = cmp.Or(cfg.Workspaces, 64)
	cfg.Entries = cmp.Or(cfg.Entries, 1000)
	if o := cfg.Outside; o != nil && (o.Await == nil || o.Workspaces < 1 || o.Workspaces > cfg.Workspaces) {
		return nil, errors.New("eventlog: SubscriberConfig.Outside needs Await, and Workspaces from 1 to those of a claim")
	}
	cfg.Sweep = cmp.Or(cfg.Sweep, 2*time.Second)
	cfg.Grace = cmp.Or(cfg.Grace, 10*time.Second)
	if cfg.Sleep == nil {
		cfg.Sleep = flow.Sleep
	}
	return &Subscriber{cfg: cfg, stop: make(chan struct{})}, nil
}

// Probe runs the first statement of a claim, but for no workspace. The error says what prevents
// claims.
func (s *Subscriber) Probe(ctx context.Context, consumerName string) error {
	if _, err := s.cfg.AuxPool.Exec(ctx, lockSQL, consumerName, "", s.cfg.Clock(), 1, false); err != nil {
		return fmt.Errorf("lock checkpoints: %w", err)
	}
	return nil
}

// Subscribe starts claiming until ctx ends or Close is called. A claim in flight is finished first,
// unless that takes longer than SubscriberConfig.Grace.
func (s *Subscriber) Subscribe(ctx context.Context, consumerName string) (<-chan *message.Message, error) {
	select {
	case <-s.stop:
		return nil, errors.New("the subscriber is closed")
	default:
	}
	c := newConsumer(&s.cfg, consumerName)
	claiming, stop := context.WithCancel(ctx)
	s.consumers.Go(func() {
		defer stop()
		c.run(claiming)
	})
	s.consumers.Go(func() {
		select {
		case <-s.stop:
			stop()
		case <-claiming.Done():
		}
	})
	return c.out, nil
}

// Close stops claiming and returns when the claims in flight are finished.
func (s *Subscriber) Close() error {
	s.once.Do(func() { close(s.stop) })
	s.consumers.Wait()
	return nil
}

// markYielding marks the workspaces for which this process is preferred at once, and the others a
// moment later.
func (c *consumer) markYielding(ctx context.Context, workspaceIDs []string) {
	mine, others := c.preferred(workspaceIDs)
	c.dirty.mark(mine, shared)
	if len(others) == 0 {
		return
	}
	c.yielding.Go(func() {
		if flow.Sleep(ctx, yieldTime) {
			c.dirty.mark(others, shared)
		}
	})
}

// preferred is Notifier.preferred for the read models. Other consumers leave nothing to other
// processes, because these are not notified of their moves.
func (c *consumer) preferred(workspaceIDs []string) (mine, others []string) {
	if c.consumer != ReadModels {
		return workspaceIDs, nil
	}
	return c.cfg.Notifier.preferred(workspaceIDs)
}
