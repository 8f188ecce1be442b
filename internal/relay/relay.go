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
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// workers is how many claims are sent at once, and claimEntries how many entries each has at most.
// While many workspaces have a backlog, a claim has at least claimWorkspaces of them: the broker
// answers each message after a round trip, and the next message of the same workspace waits for
// that.
const (
	workers         = 4
	claimEntries    = 4000
	claimWorkspaces = 16
)

// Connections is how many connections of its pool a Relay needs: each worker holds one while it
// sends, and sometimes needs another.
const Connections = workers + 4

// Workers is how many connections of Config.Pool a Relay uses if it also has a Config.AuxPool.
const Workers = workers + 1

// claimTimeout bounds how long a claim is sent before it ends with what was stored. Its transaction
// is open meanwhile, which keeps the database from removing old rows.
const claimTimeout = 10 * time.Second

// lockTimeout is how long a statement waits for a row that another transaction has locked.
const lockTimeout = 200 * time.Millisecond

// PoolSettings returns the run-time parameters for a Relay's connections.
func PoolSettings() map[string]string {
	return map[string]string{
		"jit": "off", "lock_timeout": strconv.FormatInt(lockTimeout.Milliseconds(), 10),
		// If a server crash loses checkpoints, entries are sent again, as after a crash of the
		// relay.
		"synchronous_commit": "off",
	}
}

// consumerPrefix separates relays' checkpoints from those of other consumers. It is stored, so it
// must not change.
const consumerPrefix = "relay:"

// Consumer returns the consumer name of a relay's checkpoints.
func Consumer(name string) string { return consumerPrefix + name }

// Config configures a Relay.
type Config struct {
	Pool      pg.DB // with PoolSettings; without AuxPool, at least Connections connections
	AuxPool   pg.DB // see eventlog.SubscriberConfig
	Notifier  *eventlog.Notifier
	Publisher Publisher // closed by Run
	Clock     func() time.Time
	Logger    *slog.Logger
	Metrics   prometheus.Registerer // nil: none

	Name     string   // of the relay: 1 to 64 of A-Z a-z 0-9 _ -; a new name begins at position 1
	Form     Form     // default FormPublic
	Envelope Envelope // default EnvelopeNone
	Source   string   // with EnvelopeCloudEvents: the address of this installation

	Sweep time.Duration // the shortest time between two sweeps; default 2 s
}

// Relay sends the log to a broker while it runs. Any number of processes may run a Relay of the
// same name; they share the workspaces.
type Relay struct {
	publisher  Publisher
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
		Pool: cfg.Pool, AuxPool: cfg.AuxPool, Notifier: cfg.Notifier, Clock: cfg.Clock, Logger: cfg.Logger, Sweep: cfg.Sweep,
		Workers: workers, Entries: claimEntries, After: eventlog.ReadModels, Public: r.format.form == FormPublic,
		Outside: &eventlog.Outside{Await: r.gate.await, Workspaces: claimWorkspaces},
	}); err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	if r.router, err = message.NewRouter(message.RouterConfig{CloseTimeout: 2 * claimTimeout}, flow.RouterLogger(cfg.Logger)); err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	// KeepError wraps Recoverer, so that it also gets panics as errors.
	r.router.AddMiddleware(eventlog.KeepError, middleware.Recoverer)
	r.router.AddConsumerHandler("relay", r.consumer, r.subscriber, r.handle)
	return r, nil
}

// Run sends until ctx ends, finishes the messages in flight, and returns.
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

// errEnded means that sending stopped before the end of a segment although nothing is wrong.
var errEnded = errors.New("the claim ends")

// handle is the Router's handler. It sends a claim, all of its workspaces at the same time, and
// shortens the claim to what the broker has stored.
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
	err         error // why not everything was sent; nil: everything was
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

// settle shortens a claim to what was sent. If the broker is unavailable, the rest is claimed again
// when it is back. Otherwise the worker for failing workspaces takes over those that could not be
// sent. settle returns an error only if the claim's only workspace failed without sending anything.
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
	// probeTimeout bounds one probe of the broker.
	probeTimeout = 5 * time.Second

	// firstWait is the wait after the first failed probe of the broker. It doubles up to
	// longestWait.
	firstWait   = 100 * time.Millisecond
	longestWait = 10 * time.Second
)

// gate is closed while the broker is unavailable, and until the first probe has succeeded.
type gate struct {
	probe  func(context.Context) error
	clock  func() time.Time
	logger *slog.Logger

	turn chan struct{} // one slot; the caller that fills it probes the broker

	mu     sync.Mutex
	open   bool      // guarded by mu, like the fields below
	since  time.Time // when the gate was closed
	reason error
}

var errNotTried = errors.New("the broker has not answered yet")

func newGate(probe func(context.Context) error, clock func() time.Time, logger *slog.Logger) *gate {
	return &gate{probe: probe, clock: clock, logger: logger, turn: make(chan struct{}, 1), since: clock(), reason: errNotTried}
}

// state returns since when the broker cannot be used, and why; a nil reason means that it can.
func (g *gate) state() (since time.Time, reason error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open {
		return time.Time{}, nil
	}
	return g.since, g.reason
}

// err returns the state as an error; nil: the broker can be used.
func (g *gate) err() error {
	since, reason := g.state()
	if reason == nil {
		return nil
	}
	return fmt.Errorf("the message broker cannot be used since %s: %w", since.UTC().Format(time.RFC3339), reason)
}

// check probes the broker after something could not be sent, and reports whether it can be used.
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

// await returns when the gate is open or ctx has ended. One caller at a time probes the broker.
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
		if !flow.Sleep(ctx, wait) {
			return
		}
	}
}

// The outcomes of sending a message, as its metric's labels.
const (
	outcomeSent   = "sent"
	outcomeFailed = "failed"
)

type metrics struct {
	messages  *prometheus.CounterVec
	duration  prometheus.Histogram
	reachable prometheus.GaugeFunc
}

// newMetrics registers the metrics unless the registerer is nil.
func newMetrics(register prometheus.Registerer, g *gate) (*metrics, error) {
	m := &metrics{
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_relay_messages_total",
			Help: "Messages that this process sent to the broker, by outcome: sent, which the broker has stored, and failed, which are sent again.",
		}, []string{"outcome"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ledgerfeed_relay_publish_seconds", Help: "Time until the broker has stored a message.",
			Buckets:                     []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .05, .25, 1, 5},
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
		}),
		reachable: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ledgerfeed_relay_broker_up", Help: "1 while the relay's broker can be used, 0 otherwise.",
		}, func() float64 {
			if g.err() != nil {
				return 0
			}
			return 1
		}),
	}
	for _, outcome := range []string{outcomeSent, outcomeFailed} {
		m.messages.WithLabelValues(outcome)
	}
	if register == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.messages, m.duration, m.reachable} {
		if err := register.Register(c); err != nil {
			return nil, fmt.Errorf("relay: register metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) observe(took time.Duration, err error) {
	if err != nil {
		m.messages.WithLabelValues(outcomeFailed).Inc()
		return
	}
	m.messages.WithLabelValues(outcomeSent).Inc()
	m.duration.Observe(took.Seconds())
}

// Status is the progress of one relay, over all workspaces or in one.
type Status struct {
	Name       string    `json:"name"`
	Position   int64     `json:"position"`    // entries sent, or passed over because they are internal
	Visible    int64     `json:"visible"`     // entries that may be sent
	LagEntries int64     `json:"lag_entries"` // of those, entries not yet sent
	LagSeconds float64   `json:"lag_seconds"` // since the oldest of them was appended; 0: there is none
	Failing    int64     `json:"failing"`     // workspaces whose last attempt failed
	Errors     []Failing `json:"errors"`      // the first mostListed of them
}

// Failing is a workspace that cannot be sent.
type Failing struct {
	WorkspaceID string     `json:"workspace_id"`
	Position    int64      `json:"position"` // of the entry that cannot be sent
	Error       string     `json:"error"`
	RetryAt     *time.Time `json:"retry_at"`
}

// mostListed bounds the failing workspaces that are listed of a relay.
const mostListed = 100

// ReadStatus reads the progress of every relay that ever ran on the database. With a workspaceID,
// it covers that workspace only; empty: all.
func ReadStatus(ctx context.Context, pool pg.DB, workspaceID string) ([]Status, error) {
	list, err := pg.Collect(ctx, pool, func(row pgx.CollectableRow) (s Status, err error) {
		return s, row.Scan(&s.Name, &s.Position, &s.Visible, &s.LagEntries, &s.LagSeconds, &s.Failing)
	}, `
		SELECT substr(n.consumer, length($1) + 1), sum(coalesce(c.position, 0))::bigint, sum(v.position)::bigint,
		       sum(greatest(v.position - coalesce(c.position, 0), 0))::bigint,
		       coalesce(extract(epoch FROM clock_timestamp() - min(coalesce(e.appended_at, e.created_at))), 0)::float8,
		       count(*) FILTER (WHERE c.failures > 0)
		  FROM (SELECT DISTINCT consumer FROM log_checkpoint WHERE starts_with(consumer, $1)) n
		  JOIN log_checkpoint v ON v.consumer = 'read_models' AND ($2 = '' OR v.workspace_id = $2)
		  LEFT JOIN log_checkpoint c ON c.workspace_id = v.workspace_id AND c.consumer = n.consumer
		  LEFT JOIN event_log e ON v.position > coalesce(c.position, 0)
		       AND e.workspace_id = v.workspace_id AND e.position = coalesce(c.position, 0) + 1
		 GROUP BY n.consumer ORDER BY n.consumer`, consumerPrefix, workspaceID)
	if err != nil {
		return nil, fmt.Errorf("read the checkpoints of relays: %w", err)
	}
	for i := range list {
		if list[i].Errors, err = readFailing(ctx, pool, list[i].Name, workspaceID); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func readFailing(ctx context.Context, pool pg.DB, name, workspaceID string) ([]Failing, error) {
	list, err := pg.Collect(ctx, pool, pgx.RowToStructByPos[Failing], `
		SELECT workspace_id, position + 1, coalesce(error, ''), retry_at FROM log_checkpoint
		 WHERE consumer = $1 AND failures > 0 AND ($2 = '' OR workspace_id = $2)
		 ORDER BY workspace_id LIMIT $3`, Consumer(name), workspaceID, mostListed)
	if err != nil {
		return nil, fmt.Errorf("read which workspaces the relay %s cannot send: %w", name, err)
	}
	return list, nil
}
