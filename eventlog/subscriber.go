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
)

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
