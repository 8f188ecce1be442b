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
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// SubscriberConfig of a Subscriber.
type SubscriberConfig struct {
	Pool     *pgxpool.Pool // each worker holds a connection while it works
	Notifier *Notifier
	Clock    func() time.Time
	Logger   *slog.Logger

	// Rules is the version of the rules by which the handler makes its rows; it
	// is kept with the checkpoints. 0 for handlers that make none.
	Rules int

	Workers    int           // claims under way at once; default 4
	Workspaces int           // the most workspaces of a claim; default 64
	Entries    int           // the most entries of a claim; default 1000
	Sweep      time.Duration // the least time between two sweeps; default 2 s
}

// Subscriber gives the log to a handler of the Watermill Router, one claim a
// message: the next entries of some workspaces, and the transaction that holds
// their checkpoints. On Ack the checkpoints move and everything is committed,
// so each entry is handled exactly once; on Nack everything is rolled back and
// tried again. See ClaimOf.
//
// The topic of Subscribe is the consumer's name.
type Subscriber struct {
	cfg  SubscriberConfig
	stop chan struct{} // closed by Close
	once sync.Once
	subs sync.WaitGroup
}

// NewSubscriber makes a Subscriber; it starts nothing.
func NewSubscriber(cfg SubscriberConfig) (*Subscriber, error) {
	if cfg.Pool == nil || cfg.Notifier == nil || cfg.Clock == nil || cfg.Logger == nil {
		return nil, errors.New("eventlog: SubscriberConfig needs a Pool, a Notifier, a Clock and a Logger")
	}
	cfg.Workers = cmp.Or(cfg.Workers, 4)
	cfg.Workspaces = cmp.Or(cfg.Workspaces, 64)
	cfg.Entries = cmp.Or(cfg.Entries, 1000)
	if cfg.Sweep == 0 {
		cfg.Sweep = 2 * time.Second
	}
	return &Subscriber{cfg: cfg, stop: make(chan struct{})}, nil
}

// Subscribe starts taking claims. It ends when ctx does or at Close; a claim
// under way is finished first, and its context does not end with ctx.
func (s *Subscriber) Subscribe(ctx context.Context, consumer string) (<-chan *message.Message, error) {
	select {
	case <-s.stop:
		return nil, errors.New("the subscriber is closed")
	default:
	}
	sub := &subscription{
		cfg:     &s.cfg,
		claimer: claimer{pool: s.cfg.Pool, clock: s.cfg.Clock, consumer: consumer, rules: s.cfg.Rules, entries: s.cfg.Entries},
		dirty:   newDirtySet(),
		out:     make(chan *message.Message),
	}
	if err := sub.releaseQuarantine(ctx); err != nil {
		return nil, err
	}
	claiming, stop := context.WithCancel(ctx)
	s.subs.Go(func() {
		defer stop()
		sub.run(claiming)
	})
	s.subs.Go(func() {
		select {
		case <-s.stop:
			stop()
		case <-claiming.Done():
		}
	})
	return sub.out, nil
}

// Close stops claiming, waits until what is under way is finished, and returns.
func (s *Subscriber) Close() error {
	s.once.Do(func() { close(s.stop) })
	s.subs.Wait()
	return nil
}

// subscription is the work of one Subscribe.
type subscription struct {
	claimer
	cfg   *SubscriberConfig
	dirty *dirtySet
	out   chan *message.Message
}

func (s *subscription) run(ctx context.Context) {
	defer close(s.out)
	var group sync.WaitGroup
	group.Go(func() { s.listen(ctx) })
	for range s.cfg.Workers {
		group.Go(func() { s.work(ctx) })
	}
	group.Wait()
}

// listen marks workspaces dirty as they are announced, and sweeps for those
// whose announcement was lost or whose wait is over.
func (s *subscription) listen(ctx context.Context) {
	waiter, done := s.cfg.Notifier.Subscribe(TopicAppended)
	defer done()
	sweep := time.NewTimer(0)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-waiter.C:
			ids, all := waiter.Take()
			s.dirty.mark(ids, false)
			if !all {
				continue
			}
		case <-sweep.C:
		}
		began := time.Now() // how long a sweep takes is no matter of the injected clock
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Logger.WarnContext(ctx, "the sweep for new entries failed; it is made again", "consumer", s.consumer, "error", err)
		}
		// A sweep over many workspaces takes no more than 2 % of the time.
		sweep.Reset(max(s.cfg.Sweep, 50*time.Since(began)))
	}
}

// sweep finds every workspace that is behind and may be tried.
func (s *subscription) sweep(ctx context.Context) error {
	rows, err := s.cfg.Pool.Query(ctx, `
		SELECT c.workspace_id, c.failures > 0
		  FROM log_checkpoint c JOIN log_head h USING (workspace_id)
		 WHERE c.consumer = $1 AND h.position > c.position AND (c.retry_at IS NULL OR c.retry_at <= $2)
		 ORDER BY c.moved_at NULLS FIRST`,
		s.consumer, s.clock())
	if err != nil {
		return fmt.Errorf("find workspaces that are behind: %w", err)
	}
	defer rows.Close()
	var healthy, troubled []string
	for rows.Next() {
		var (
			id     string
			failed bool
		)
		if err := rows.Scan(&id, &failed); err != nil {
			return fmt.Errorf("find workspaces that are behind: %w", err)
		}
		if failed {
			troubled = append(troubled, id)
		} else {
			healthy = append(healthy, id)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("find workspaces that are behind: %w", err)
	}
	s.dirty.mark(healthy, false)
	s.dirty.mark(troubled, true)
	return nil
}

// work takes claim after claim.
//
// How many workspaces it asks for follows what it finds: where each has a few
// entries, many share a transaction; where some have a backlog, few do, so
// that their segments are long. Both cost little for each entry.
func (s *subscription) work(ctx context.Context) {
	most := s.cfg.Workspaces
	for {
		ids, alone := s.dirty.take(ctx, most)
		if len(ids) == 0 {
			return
		}
		claim, err := s.claim(ctx, ids, alone)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			s.cfg.Logger.WarnContext(ctx, "a claim failed; it is made again", "consumer", s.consumer, "error", err)
			s.giveBackLater(ctx, ids)
			continue
		}
		if claim == nil {
			s.dirty.done(ids, func(string) bool { return false })
			continue
		}
		full := s.handle(ctx, claim, ids)
		switch {
		case 2*full > len(ids):
			most = max(1, len(ids)/2)
		case full == 0:
			most = min(2*most, s.cfg.Workspaces)
		}
	}
}

// giveBackLater returns workspaces that could not be claimed, after a pause:
// the database may be away.
func (s *subscription) giveBackLater(ctx context.Context, ids []string) {
	flow.Pause(ctx, retryPause)
	s.dirty.done(ids, func(string) bool { return true })
}

// finishPatience bounds the statements after a handler, which must not depend
// on whether the program is about to stop.
const finishPatience = 30 * time.Second

// handle hands a claim to the handler and finishes it. It returns how many
// workspaces seem to have more entries than they were allowed.
func (s *subscription) handle(ctx context.Context, c *Claim, ids []string) (full int) {
	lasting := context.WithoutCancel(ctx)
	msg, err := c.message(lasting)
	if err == nil {
		select {
		case s.out <- msg:
		case <-ctx.Done():
			pg.Rollback(lasting, c.Tx)
			s.dirty.done(ids, func(string) bool { return true })
			return 0
		}
		err = outcomeOf(msg, c)
	}
	finish, cancel := context.WithTimeout(lasting, finishPatience)
	defer cancel()
	if err == nil {
		err = c.commit(finish, s.clock())
	}
	if err != nil {
		pg.Rollback(finish, c.Tx)
		s.failed(finish, c, ids, err)
		return 0
	}
	more := map[string]bool{}
	moved := make([]string, len(c.Segments))
	for i := range c.Segments {
		moved[i] = c.Segments[i].WorkspaceID
		if c.Segments[i].full {
			more[moved[i]] = true
			full++
		}
	}
	if seg := &c.Segments[0]; seg.failures > 0 && seg.End() < seg.failedTo {
		s.dirty.failed(ids) // on towards the entry that fails, still by itself
	} else {
		s.dirty.done(ids, func(id string) bool { return more[id] })
	}
	s.cfg.Notifier.Notify(topicMoved(s.consumer), moved...)
	return full
}

// outcomeOf waits for the handler's word.
func outcomeOf(msg *message.Message, c *Claim) error {
	select {
	case <-msg.Acked():
		return nil
	case <-msg.Nacked():
	}
	if c.err != nil {
		return c.err
	}
	return errors.New("the handler refused the segment without a reason")
}

// failed sees to a claim that could not be finished. Of several workspaces
// nobody knows whose fault it is: each is tried again by itself. Of one, the
// failure is recorded.
func (s *subscription) failed(ctx context.Context, c *Claim, ids []string, reason error) {
	if len(c.Segments) > 1 {
		s.cfg.Logger.WarnContext(ctx, "a claim failed; its workspaces are tried one by one",
			"consumer", s.consumer, "workspaces", len(c.Segments), "error", reason)
		s.dirty.failed(ids)
		return
	}
	seg := &c.Segments[0]
	r, err := s.recordFailure(ctx, seg, reason)
	switch {
	case err != nil:
		s.cfg.Logger.ErrorContext(ctx, "a segment failed, and that could not be recorded; it is tried again",
			"consumer", s.consumer, "workspace", seg.WorkspaceID, "from", seg.After+1, "through", seg.End(), "error", reason, "record_error", err)
		flow.Pause(ctx, retryPause)
	case r.quarantined:
		s.cfg.Logger.ErrorContext(ctx, "an entry cannot be handled; its workspace waits there, others go on",
			"consumer", s.consumer, "workspace", seg.WorkspaceID, "position", seg.After+1, "error", reason, "retry_in", r.wait)
	default:
		s.cfg.Logger.WarnContext(ctx, "a segment failed; it is tried again",
			"consumer", s.consumer, "workspace", seg.WorkspaceID, "from", seg.After+1, "through", seg.End(), "failures", r.failures, "error", reason, "retry_in", r.wait)
	}
	if err != nil || r.wait == 0 {
		s.dirty.failed(ids)
		return
	}
	// The sweep brings it back when its wait is over.
	s.dirty.done(ids, func(id string) bool { return id != seg.WorkspaceID })
}
