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
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/periodic"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// consumer is the work of one Subscribe: a goroutine marks workspaces with new
// entries as dirty, and workers claim them and hand the claims to the handler. The
// solo worker has what most must not wait for, and the workers for mass changes have
// entries that change very many rows. One of these is always free of claims that take
// long, so that shorter ones do not wait for them.
type consumer struct {
	claimer
	cfg   *SubscriberConfig
	dirty *dirtySet
	long  places // of all workers for mass changes but one
	slots places // of claims; see SubscriberConfig.Pool
	out   chan *message.Message

	yielding sync.WaitGroup // those that mark workspaces a moment later

	sweeps, claims periodic.Outage // their log states
}

func newConsumer(cfg *SubscriberConfig, name string) *consumer {
	c := &consumer{
		claimer: claimer{
			pool: cfg.Pool, clock: cfg.Clock, consumer: name, rules: cfg.Rules, entries: cfg.Entries,
			after: cfg.After, public: cfg.Public, noData: cfg.NoData, process: uuid.NewString(),
		},
		cfg:   cfg,
		dirty: newDirtySet(),
		slots: make(places, cfg.claims),
		long:  make(places, max(1, cfg.MassWorkers-1)),
		out:   make(chan *message.Message),
	}
	logger := cfg.Logger.With("consumer", name)
	c.sweeps = periodic.Outage{Logger: logger, Failing: "cannot sweep for new entries; trying again every few seconds", Working: "sweeps for new entries work again"}
	c.claims = periodic.Outage{Logger: logger, Failing: "cannot claim entries; trying again until it works", Working: "entries are claimed again"}
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

// markDirty marks workspaces at notifications. It also sweeps, for those whose
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
			if c.cfg.Gather > 0 && !c.cfg.Pause(ctx, untilNext(c.cfg.Gather)) {
				return
			}
			// What this process has appended it claims at once: it is the first to know.
			own, others, all := appended.takeApart()
			c.dirty.mark(own, shared)
			c.markYielding(ctx, others)
			if !all {
				continue
			}
		case <-sweep.C:
		}
		began := time.Now() // not of the injected clock: it measures the sweep itself
		err := c.sweep(ctx)
		if ctx.Err() != nil {
			return
		}
		c.sweeps.Note(ctx, err)
		sweep.Reset(pace.pause(time.Since(began)))
	}
}

// sweepPace decides how long a consumer waits between two sweeps.
type sweepPace struct {
	least  time.Duration
	before time.Duration // how long the sweep before took
}

// pause returns the wait after a sweep that took so long. Sweeps over many workspaces take no
// more than 1 % of the time. One that took long by itself had to wait, for a database that
// failed over or a table that was locked, and does not put off the next: the consumer may have
// lost notifications meanwhile.
func (p *sweepPace) pause(took time.Duration) time.Duration {
	pause := max(p.least, 100*min(took, p.before))
	p.before = took
	return pause
}

// untilNext is the time until the next multiple of a time since the epoch. It is not of the
// injected clock, which does not pass by itself.
func untilNext(d time.Duration) time.Duration {
	return d - time.Duration(time.Now().UnixNano()%int64(d))
}

// topic is what tells that there may be entries to claim.
func (c *consumer) topic() Topic {
	if c.after == "" {
		return TopicAppended
	}
	return topicMoved(c.after)
}

// sweep marks every workspace that is behind and may be tried.
func (c *consumer) sweep(ctx context.Context) error {
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

// behind returns the workspaces that are behind and may be tried, by whether they are
// failing. Claims look rows up by key; this reads two tables whole, and so is allowed the
// plans for that, which take a third of the time and a fortieth of the pages.
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
	if err := c.pool.SendBatch(ctx, b).Close(); err != nil {
		return nil, nil, fmt.Errorf("find workspaces that are behind: %w", err)
	}
	return healthy, failing, nil
}

// failing is how workspaces are claimed that are failing.
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

// work makes one claim after the other.
//
// The number of workspaces in a claim adapts to what it finds. Where each has few
// entries, many share a transaction; where some have a backlog, few do, so that
// their segments are long. Both keep the cost of each entry low.
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

// soloDelay is how long a process does other work before it handles what may end it.
// Without that, a process that is killed soon after its start, again and again, would
// be killed at the same entry each time, which looks as if the entry did it.
const soloDelay = time.Second

// workSolo makes one solo claim after the other.
func (c *consumer) workSolo(ctx context.Context) {
	if !flow.Pause(ctx, soloDelay) {
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

// workMass makes one claim for a mass change after the other.
func (c *consumer) workMass(ctx context.Context) {
	if !flow.Pause(ctx, soloDelay) {
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

// workLong makes long claims while a place for one is free and a workspace waits for it. A
// worker calls it after each mass claim, which may have given a place back or made its
// workspace wait, so that no workspace waits beside a free place.
func (c *consumer) workLong(ctx context.Context) {
	for ctx.Err() == nil && c.dirty.waits(long) && c.long.take() {
		if id := c.dirty.takeOneNow(&c.dirty.long); id != "" {
			c.claimAndHandle(ctx, []string{id}, long)
		}
		c.long.give()
	}
}

// claimAndHandle returns how many of the workspaces may have more entries than the
// claim took.
func (c *consumer) claimAndHandle(ctx context.Context, ids []string, how claiming) (full int) {
	select {
	case c.slots <- struct{}{}:
		defer c.slots.give()
	case <-ctx.Done():
		return 0
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
		c.claims.Note(ctx, err)
		flow.Pause(ctx, retryPause)
		c.dirty.done(ids, all(how))
		return 0
	}
	c.claims.Note(ctx, nil)
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

// leaveLocked deals with a claim that could not be made because another transaction
// has locked a row of one of its workspaces. Each is tried alone; one that was
// alone is tried again after the next sweep, so that it does not keep a worker.
func (c *consumer) leaveLocked(ctx context.Context, ids []string, reason error) {
	next := isolated
	if len(ids) == 1 {
		next = notAtAll
		c.cfg.Logger.WarnContext(ctx, "cannot claim entries, because another transaction has locked a row; retrying after the next sweep",
			"consumer", c.consumer, "workspace", ids[0], "error", reason)
	}
	c.dirty.done(ids, all(next))
}

// finishTimeout bounds the statements after a handler. They do not end with the
// program's context.
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
	msg, err := claim.message(lasting)
	if err == nil {
		select {
		case c.out <- msg:
			err = outcomeOf(msg, claim)
		case <-ctx.Done():
			err = ErrStopped
		}
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
		switch {
		case s.next != notAtAll:
			next[s.WorkspaceID] = s.next
		case s.failures > 0 && s.End() < s.failedTo:
			next[s.WorkspaceID] = c.failing() // until the entry that fails is reached
		case s.full:
			next[s.WorkspaceID] = shared
			full++
		}
	}
	c.dirty.done(ids, func(id string) claiming { return next[id] })
	if len(moved) > 0 && c.after == "" { // nobody waits for a consumer that comes after another
		c.cfg.Notifier.Notify(topicMoved(c.consumer), moved...)
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

// failed deals with a claim that was rolled back. Of several workspaces it is not
// known which one fails, so each is tried alone. Of one, the failure is recorded.
// A handler that was stopped did not fail.
func (c *consumer) failed(ctx context.Context, claim *Claim, ids []string, reason error) {
	if errors.Is(reason, ErrStopped) {
		c.dirty.done(ids, all(shared))
		return
	}
	if errors.Is(reason, ErrTooLong) {
		c.dirty.done(ids, all(long))
		return
	}
	if len(claim.Segments[0].Entries) == 0 { // it was left for the solo worker
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
		c.cfg.Logger.ErrorContext(ctx, "cannot handle a segment and cannot record the failure; retrying",
			"consumer", c.consumer, "workspace", s.WorkspaceID, "from", s.After+1, "through", s.End(), "error", reason, "record_error", err)
		flow.Pause(ctx, retryPause)
	case r.quarantined:
		c.cfg.Logger.ErrorContext(ctx, "cannot handle an entry; its workspace is quarantined before that entry, other workspaces continue",
			"consumer", c.consumer, "workspace", s.WorkspaceID, "position", s.After+1, "error", reason, "retry_in", r.wait)
	default:
		c.cfg.Logger.WarnContext(ctx, "cannot handle a segment; retrying",
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

// SubscriberConfig of a Subscriber.
type SubscriberConfig struct {
	// Pool has two connections at least: each claim under way holds one, and needs a second one
	// at times. So there are never as many claims under way as connections, or all of them could
	// wait for each other.
	Pool     *pgxpool.Pool
	Notifier *Notifier
	Clock    func() time.Time
	Logger   *slog.Logger

	// Rules is the version of the rules by which the handler makes its rows; it
	// is kept with the checkpoints. 0 for handlers that make none.
	Rules int

	// After is another consumer, such as ReadModels, that must have handled an entry
	// before this one gets it; empty: none. Workspaces get their checkpoints, at position
	// 0, when they are first claimed.
	After string

	// Public adds the public forms to the segments. NoData leaves out the entries' data, for
	// handlers that need none.
	Public, NoData bool

	// Gather is how long notifications are gathered before the workspaces are claimed, so
	// that a handler writes less often where entries come one by one: a process claims a
	// workspace once in that time, unless it has more entries than a claim. It is counted from
	// the epoch, so that processes beside each other claim at the same moment, and mostly one
	// of them gets the workspace. Default: they are claimed at once.
	Gather time.Duration

	// Pause waits while notifications are gathered, and reports whether ctx has not ended;
	// nil: flow.Pause.
	Pause func(ctx context.Context, d time.Duration) bool

	// Outside is for handlers that work on something outside of the database; nil: they do
	// not.
	Outside *Outside

	Workers     int           // claims under way at once, beside one that is solo and those of mass changes; default 4
	MassWorkers int           // claims under way at once that change very many rows (Claim.LeaveMass); 0: the handler leaves none
	Workspaces  int           // the most workspaces of a claim; default 64
	Entries     int           // the most entries of a claim; default 1000
	Sweep       time.Duration // the least time between two sweeps; default 2 s

	claims int // the most claims under way at once; see Pool
}

// Outside says how a handler is called that works on something outside of the database,
// such as a message broker. What it does there is not rolled back with its claim, so it
// does it at least once. It shortens its claim to what it could do (Claim.Shorten,
// Claim.LeaveFrom). Workspaces that are failing are claimed by the solo worker, so that
// their timeouts keep no other worker.
type Outside struct {
	// Await is called before each claim. It returns when the handler can work, or when ctx
	// has ended. No transaction is open meanwhile.
	Await func(ctx context.Context)

	// Workspaces is how many workspaces a claim has at least while so many have a backlog,
	// because the handler works on them at the same time.
	Workspaces int
}

// Subscriber gives the log to a handler of the Watermill Router, one claim a
// message: the next entries of some workspaces, and the transaction that holds
// their checkpoints locked. On Ack the checkpoints move and everything is
// committed, so each entry is handled exactly once. On Nack everything is rolled
// back and tried again. See ClaimOf.
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
	if cfg.Pool.Config().MaxConns < 2 {
		return nil, errors.New("eventlog: SubscriberConfig.Pool needs two connections: one for a claim, and one for what it writes apart from it")
	}
	cfg.claims = int(cfg.Pool.Config().MaxConns) - 1
	cfg.Workers = cmp.Or(cfg.Workers, 4)
	cfg.Workspaces = cmp.Or(cfg.Workspaces, 64)
	cfg.Entries = cmp.Or(cfg.Entries, 1000)
	if o := cfg.Outside; o != nil && (o.Await == nil || o.Workspaces < 1 || o.Workspaces > cfg.Workspaces) {
		return nil, errors.New("eventlog: SubscriberConfig.Outside needs Await, and Workspaces from 1 to those of a claim")
	}
	if cfg.Sweep == 0 {
		cfg.Sweep = 2 * time.Second
	}
	if cfg.Pause == nil {
		cfg.Pause = flow.Pause
	}
	return &Subscriber{cfg: cfg, stop: make(chan struct{})}, nil
}

// Probe does what a claim begins with, of no workspace. The error says what is in the
// way.
func (s *Subscriber) Probe(ctx context.Context, consumerName string) error {
	if _, err := s.cfg.Pool.Exec(ctx, lockSQL, consumerName, "", s.cfg.Clock(), 1, false); err != nil {
		return fmt.Errorf("lock checkpoints: %w", err)
	}
	return nil
}

// Subscribe starts claiming. It ends when ctx does or at Close. A claim under way
// is finished first, and its context does not end with ctx.
func (s *Subscriber) Subscribe(ctx context.Context, consumerName string) (<-chan *message.Message, error) {
	select {
	case <-s.stop:
		return nil, errors.New("the subscriber is closed")
	default:
	}
	c := newConsumer(&s.cfg, consumerName)
	if err := c.retryQuarantined(ctx); err != nil {
		return nil, err
	}
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

// Close stops claiming and returns when the claims under way are finished.
func (s *Subscriber) Close() error {
	s.once.Do(func() { close(s.stop) })
	s.consumers.Wait()
	return nil
}

// Segment is the next entries of one workspace for a consumer.
type Segment struct {
	WorkspaceID string
	After       int64 // the checkpoint: position of the last entry handled before
	Entries     []domain.Entry
	Public      []string // with SubscriberConfig.Public, the public forms of the entries; empty: internal
	Pay         []bool   // with SubscriberConfig.Public, whether only readers with pay:read may see their events

	failures int
	failedTo int64
	full     bool     // there may be more entries after these
	next     claiming // how the workspace is claimed after this claim; 0: as usual
}

// End is the position of the segment's last entry.
func (s *Segment) End() int64 { return s.After + int64(len(s.Entries)) }

// cut takes the entries at a position and after it away.
func (s *Segment) cut(position int64) { s.Entries = s.Entries[:position-s.After-1] }
