package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/bus"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// How many claims are sent at once, of how many entries, and of how many workspaces at
// least where many have a backlog: a broker answers each message after a round trip, and
// the next one of its workspace waits for that.
const (
	workers         = 4
	claimEntries    = 4000
	claimWorkspaces = 16
)

// Connections is how many connections of a pool a Relay needs: each worker has one while
// it sends, and needs another one at times.
const Connections = workers + 4

// claimTimeout is how long a claim is sent before it ends with what was stored. Its
// transaction, which keeps the database from removing old rows, is open meanwhile.
const claimTimeout = 10 * time.Second

// lockTimeout is how long a statement waits for a row that another transaction has locked.
const lockTimeout = 200 * time.Millisecond

// PoolSettings are the run-time parameters for the connections of a Relay.
func PoolSettings() map[string]string {
	return map[string]string{
		"jit": "off", "lock_timeout": strconv.FormatInt(lockTimeout.Milliseconds(), 10),
		// Where a crash of the server takes checkpoints back, entries are sent again, as after a crash of the relay.
		"synchronous_commit": "off",
	}
}

// consumerPrefix keeps the checkpoints of relays apart from those of other consumers. It
// is stored, so it must not change.
const consumerPrefix = "relay:"

// Consumer is the name of a relay's checkpoints.
func Consumer(name string) string { return consumerPrefix + name }

// Config of a Relay.
type Config struct {
	Pool      *pgxpool.Pool // opened with PoolSettings; at least Connections
	Notifier  *eventlog.Notifier
	Publisher bus.Publisher // closed by Run
	Clock     func() time.Time
	Logger    *slog.Logger
	Metrics   prometheus.Registerer // nil: none

	Name     string   // of the relay: 1 to 64 of A-Z a-z 0-9 _ -; another one begins at position 1
	Form     Form     // default FormPublic
	Envelope Envelope // default EnvelopeNone
	Source   string   // with EnvelopeCloudEvents: the address of this installation

	Sweep time.Duration // at least so much time between two sweeps; default 2 s
}

// Relay sends the log to a broker while it runs. Any number of processes may run one of
// the same name; they share the workspaces.
type Relay struct {
	publisher  bus.Publisher
	format     format
	consumer   string
	gate       *gate
	metrics    *metrics
	router     *message.Router
	subscriber *eventlog.Subscriber
}

// New makes a Relay; Run starts it.
func New(cfg Config) (*Relay, error) {
	if !domain.IsID(cfg.Name) || cfg.Publisher == nil {
		return nil, errors.New("relay: Config needs a Publisher, and a Name of 1 to 64 of A-Z a-z 0-9 _ -")
	}
	r := &Relay{
		publisher: cfg.Publisher, consumer: Consumer(cfg.Name),
		format: format{cmp.Or(cfg.Form, FormPublic), cmp.Or(cfg.Envelope, EnvelopeNone), cfg.Source},
		gate:   newGate(cfg.Publisher.Probe, cfg.Clock, cfg.Logger),
	}
	var err error
	if r.metrics, err = newMetrics(cfg.Metrics, r.gate); err != nil {
		return nil, err
	}
	if r.subscriber, err = eventlog.NewSubscriber(eventlog.SubscriberConfig{
		Pool: cfg.Pool, Notifier: cfg.Notifier, Clock: cfg.Clock, Logger: cfg.Logger, Sweep: cfg.Sweep,
		Workers: workers, Entries: claimEntries, After: eventlog.ReadModels, Public: r.format.form == FormPublic,
		Outside: &eventlog.Outside{Await: r.gate.await, Workspaces: claimWorkspaces},
	}); err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	if r.router, err = message.NewRouter(message.RouterConfig{CloseTimeout: 2 * claimTimeout}, flow.RouterLogger(cfg.Logger)); err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	// KeepError is outside of Recoverer, so that it also gets what was a panic.
	r.router.AddMiddleware(eventlog.KeepError, middleware.Recoverer)
	r.router.AddConsumerHandler("relay", r.consumer, r.subscriber, r.handle)
	return r, nil
}

// Run sends until ctx ends, finishes the messages under way, and returns.
func (r *Relay) Run(ctx context.Context) (err error) {
	defer func() {
		if closeErr := r.publisher.Close(); closeErr != nil && err == nil {
			err = fmt.Errorf("relay: close the connection to the broker: %w", closeErr)
		}
	}()
	if err := r.router.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("relay: %w", err)
	}
	return nil
}

// Probe says what keeps the relay from sending: the database, or the broker.
func (r *Relay) Probe(ctx context.Context) error {
	if err := r.subscriber.Probe(ctx, r.consumer); err != nil {
		return fmt.Errorf("claim entries: %w", err)
	}
	return r.gate.err()
}

// errEnded is why sending stops before the end of a segment although nothing is wrong.
var errEnded = errors.New("the claim ends")

// handle is the Router's handler: it sends a claim, all of its workspaces at the same
// time, and shortens it to what the broker has stored.
func (r *Relay) handle(msg *message.Message) error {
	claim, err := eventlog.ClaimOf(msg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(msg.Context(), claimTimeout, errEnded)
	defer cancel()
	go func() {
		select {
		case <-claim.Stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	outcomes := make([]outcome, len(claim.Segments))
	var wait sync.WaitGroup
	for i := range claim.Segments {
		wait.Go(func() { outcomes[i] = r.send(ctx, &claim.Segments[i]) })
	}
	wait.Wait()
	return r.settle(msg.Context(), claim, outcomes)
}

// outcome is how the sending of a segment ended.
type outcome struct {
	workspaceID string
	next        int64 // the first position that was not sent
	moved       bool  // something was sent
	err         error // why not all of it was; nil: all was
}

// send sends the entries of a segment, one after the other.
func (r *Relay) send(ctx context.Context, s *eventlog.Segment) outcome {
	for i := range s.Entries {
		e := &s.Entries[i]
		var public string
		if s.Public != nil {
			public = s.Public[i]
		}
		if err := ctx.Err(); err != nil {
			return outcome{s.WorkspaceID, e.Position, i > 0, errEnded}
		}
		msg, err := r.format.message(e, public)
		if err == nil && msg != nil {
			began := time.Now() // not of the injected clock: it measures the broker
			err = r.publisher.Publish(s.WorkspaceID, msg)
			r.metrics.observe(time.Since(began), err)
		}
		if err != nil {
			return outcome{s.WorkspaceID, e.Position, i > 0, fmt.Errorf("send position %d: %w", e.Position, err)}
		}
	}
	return outcome{workspaceID: s.WorkspaceID}
}

// settle shortens a claim to what was sent. Where the broker is away, what was not sent is
// claimed again when it is back; otherwise the workspaces that could not be sent are left
// to the worker for failing ones. The error is the failure of the only workspace.
func (r *Relay) settle(ctx context.Context, claim *eventlog.Claim, outcomes []outcome) error {
	away, known := false, false
	for _, o := range outcomes {
		if o.err == nil {
			continue
		}
		ended := errors.Is(o.err, errEnded)
		if !ended && !known {
			away, known = !r.gate.check(ctx), true
		}
		switch {
		case ended || away:
			claim.Shorten(o.workspaceID, o.next)
		case claim.Solo && !o.moved:
			return o.err
		default:
			claim.LeaveFrom(o.workspaceID, o.next)
		}
	}
	return nil
}

const (
	// probeTimeout bounds one look at the broker.
	probeTimeout = 5 * time.Second

	// firstWait doubles until longestWait between two looks at a broker that is away.
	firstWait   = 100 * time.Millisecond
	longestWait = 10 * time.Second
)

// gate is closed while the broker is away. It is closed at first.
type gate struct {
	probe  func(context.Context) error
	clock  func() time.Time
	logger *slog.Logger

	turn chan struct{} // who holds its token looks at the broker

	mu     sync.Mutex
	open   bool      // guarded by mu, as the following are
	since  time.Time // it is closed
	reason error
}

var errNotTried = errors.New("the broker has not answered yet")

func newGate(probe func(context.Context) error, clock func() time.Time, logger *slog.Logger) *gate {
	return &gate{probe: probe, clock: clock, logger: logger, turn: make(chan struct{}, 1), since: clock(), reason: errNotTried}
}

// state returns since when the broker cannot be used, and why; nil: it can.
func (g *gate) state() (since time.Time, reason error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open {
		return time.Time{}, nil
	}
	return g.since, g.reason
}

// err is the state in words; nil: the broker can be used.
func (g *gate) err() error {
	since, reason := g.state()
	if reason == nil {
		return nil
	}
	return fmt.Errorf("the message broker cannot be used since %s: %w", since.UTC().Format(time.RFC3339), reason)
}

// check looks at the broker after something could not be sent, and reports whether it can
// be used.
func (g *gate) check(ctx context.Context) bool {
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := g.probe(limited)
	g.set(ctx, err)
	return err == nil
}

// set opens or closes the gate, and logs when that changes.
func (g *gate) set(ctx context.Context, reason error) {
	g.mu.Lock()
	was, since := g.open, g.since
	g.open, g.reason = reason == nil, reason
	if was && reason != nil {
		g.since = g.clock()
	}
	g.mu.Unlock()
	switch {
	case was && reason != nil:
		g.logger.ErrorContext(ctx, "the message broker cannot be used; the relay waits for it", "error", reason)
	case !was && reason == nil:
		g.logger.InfoContext(ctx, "the message broker can be used; the relay goes on", "after", g.clock().Sub(since))
	}
}

// await returns when the gate is open or ctx has ended. One caller at a time looks at the
// broker.
func (g *gate) await(ctx context.Context) {
	if _, reason := g.state(); reason == nil {
		return
	}
	select {
	case <-ctx.Done():
		return
	case g.turn <- struct{}{}:
	}
	defer func() { <-g.turn }()
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		if _, reason := g.state(); reason == nil || g.check(ctx) {
			return
		}
		if !flow.Pause(ctx, wait) {
			return
		}
	}
}
