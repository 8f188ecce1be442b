package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/delivery/mail"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
)

// Config configures a Dispatcher.
type Config struct {
	Pool pg.DB // required, opened with PoolSettings; uses up to 8 connections
	// LeasePool has a connection reserved for the lease, so that other statements cannot hold it
	// up; nil: Pool.
	LeasePool pg.DB

	Keyring  *keyring.Keyring   // required
	Notifier *eventlog.Notifier // required
	Clock    func() time.Time   // required
	Logger   *slog.Logger       // required
	Metrics  prometheus.Registerer
	Tracer   trace.Tracer // makes a span for each attempt; receivers get its traceparent; nil: none

	Settings policy.Settings
	Mail     mail.Settings

	// Bound is the maximum number of attempts of one webhook that are started and not yet recorded.
	// Default 10.
	Bound int

	// Limit is the maximum number of attempts in flight in the process. Above half of it, webhooks
	// get even shares. Default 2000.
	Limit int

	// CostlyPerSecond limits the rate of attempts, together, for all webhooks that keep failing
	// expensively, with a new connection or a timeout each. Bursts of ten seconds' worth are
	// allowed. Default 8 per processor, which uses about 1 % of it.
	CostlyPerSecond int

	// Lease is the time within which another process takes over the webhooks of a process that
	// died. Three quarters of it must be longer than the timeout of an attempt and two sweeps.
	// Default: the larger of the timeout plus 20 s, and twice the timeout.
	Lease time.Duration

	// Renew is how often the lease is renewed. Each renewal also detects that the process's clock
	// was set or that another process died. Default an eighth of Lease.
	Renew time.Duration

	// Sweep is how often the database is searched for webhooks whose notification
	// was lost. Default 1 s. Sweeps never take more than 2 % of the time.
	Sweep time.Duration

	// Idle is how long a webhook without work is held. While it is held, its next event needs no
	// claim, which takes a commit and three round trips. Default 1 min.
	Idle time.Duration
}

const costlyPerProcessor = 8

// PoolSettings returns the run-time parameters for the connections of a Dispatcher. Its statements
// look up rows by key, with plans that do not depend on the number of rows. Without sorts, a
// one-value range with ORDER BY on the same column uses the index with this order, whatever the
// statistics say about a webhook. An equality may use any index that begins with the webhook.
func PoolSettings() map[string]string {
	return map[string]string{"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_sort": "off", "jit": "off"}
}

// Dispatcher delivers events to webhooks. Any number of processes may run one on a database.
type Dispatcher struct {
	cfg     Config
	store   *store
	sender  *attempt.Sender
	mailer  *mail.Mailer
	notify  eventlog.NotifyFunc
	clock   func() time.Time
	logger  *slog.Logger
	outages *outages
	metrics *metrics
	traces  attemptTracer
	rollups *rollup.Writer

	events    chan scheduler.Event      // to the loop
	stats     chan chan scheduler.Stats // questions of metrics to the loop
	ended     chan struct{}             // closed when the loop has ended
	takeLease chan string               // passes a lease that has ended to keepLease
	orphaned  chan struct{}             // a process that held webhooks died: sweep now
	lease     atomic.Pointer[string]    // the current one, for sweeps
	started   atomic.Bool
}

// Probe makes a claim for no webhooks. The error says what prevents claims. The process is not ready before
// its first lease, which tells a rotation of the secret key which keys the process has.
func (d *Dispatcher) Probe(ctx context.Context) error {
	if d.lease.Load() == nil {
		return errors.New("it has not begun to deliver yet")
	}
	_, err := d.store.claim(ctx, &scheduler.Claim{}, d.clock())
	return err
}

// New returns a Dispatcher; Run starts it. The error says what is wrong with cfg.
func New(cfg Config) (*Dispatcher, error) {
	if cfg.Pool == nil || cfg.Keyring == nil || cfg.Notifier == nil || cfg.Clock == nil || cfg.Logger == nil {
		return nil, errors.New("dispatch: Config needs a Pool, a Keyring, a Notifier, a Clock and a Logger")
	}
	var err error
	if cfg.Settings, err = cfg.Settings.WithDefaults(); err != nil {
		return nil, err
	}
	cfg.Bound = cmp.Or(cfg.Bound, 10)
	cfg.Limit = cmp.Or(cfg.Limit, 2000)
	cfg.CostlyPerSecond = cmp.Or(cfg.CostlyPerSecond, costlyPerProcessor*runtime.GOMAXPROCS(0))
	cfg.Lease = cmp.Or(cfg.Lease, max(cfg.Settings.Timeout+20*time.Second, 2*cfg.Settings.Timeout))
	cfg.Sweep = cmp.Or(cfg.Sweep, time.Second)
	cfg.Idle = cmp.Or(cfg.Idle, time.Minute)
	// Other processes notice at their next renewal that a lease has ended. The lease and that wait
	// together must be within Config.Lease.
	lease := cfg.Lease * 3 / 4
	if lease <= cfg.Settings.Timeout+2*cfg.Sweep {
		return nil, errors.New("dispatch: three quarters of the lease must be longer than the timeout of an attempt and two sweeps")
	}
	cfg.Renew = cmp.Or(cfg.Renew, lease/renewals)
	d := &Dispatcher{
		cfg: cfg, notify: cfg.Notifier.Notify, clock: cfg.Clock, logger: cfg.Logger, outages: newOutages(cfg.Logger), traces: newAttemptTracer(cfg.Tracer), rollups: rollup.NewWriter(cfg.Pool, cfg.Logger),
		store:  &store{pool: cfg.Pool, lease: cfg.LeasePool, keyring: cfg.Keyring, leaseTime: lease},
		events: make(chan scheduler.Event, 1024), stats: make(chan chan scheduler.Stats), ended: make(chan struct{}),
		takeLease: make(chan string, 1), orphaned: make(chan struct{}, 1),
	}
	if d.sender, err = attempt.NewSender(attempt.SenderConfig{Settings: cfg.Settings, Clock: cfg.Clock}); err != nil {
		return nil, err
	}
	if d.mailer, err = mail.New(cfg.Mail, cfg.Pool, cfg.Clock, cfg.Logger); err != nil {
		return nil, err
	}
	if d.metrics, err = newMetrics(cfg.Metrics, d); err != nil {
		return nil, err
	}
	return d, nil
}

// topic is the name of the one stream of messages, for Watermill.
const topic = "webhooks"

// closeTimeout bounds the recording after the last attempt has ended. With releaseTimeout it is how
// long silent connections hold up the end.
const closeTimeout = 10 * time.Second

// Run delivers until ctx ends, lets attempts in flight finish, records them, and returns. It may be
// called once.
func (d *Dispatcher) Run(ctx context.Context) error {
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: d.cfg.Settings.Timeout + closeTimeout + 2*releaseTimeout}, flow.RouterLogger(d.logger))
	if err != nil {
		return fmt.Errorf("dispatch: %w", err)
	}
	// KeepError wraps Recoverer, so that it sees the errors of panics.
	router.AddMiddleware(flow.KeepError[*work], middleware.Recoverer)
	router.AddConsumerHandler(topic, topic, &subscriber{dispatcher: d, stop: make(chan struct{})}, d.handle)
	defer d.sender.Close()
	end := d.rollups.Start()
	defer end()
	if err := router.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("dispatch: %w", err)
	}
	return nil
}

// handle is the handler of the Watermill Router: it makes the attempt.
func (d *Dispatcher) handle(msg *message.Message) error {
	w, err := flow.Work[*work](msg)
	if err != nil {
		return fmt.Errorf("dispatch: %w", err)
	}
	a := w.attempt
	if a.Endpoint.Broken != nil {
		return a.Endpoint.Broken
	}
	m := &attempt.Message{
		URL: a.Endpoint.URL, WebhookID: a.Key().WebhookID, EventID: a.EventID, Body: a.Body,
		Secrets: a.Endpoint.Secrets(d.clock()), DeliveryID: a.DeliveryID(), Standard: a.Endpoint.Standard,
		Position: a.Position,
	}
	ctx, end := d.traces.begin(msg.Context(), w)
	m.Traceparent = tracing.Traceparent(ctx)
	w.result = d.sender.Send(ctx, m)
	end()
	return nil
}

// post sends an event to the loop. Events posted after the loop has ended are dropped.
func (d *Dispatcher) post(e scheduler.Event) {
	select {
	case d.events <- e:
	case <-d.ended:
	}
}

// readStats asks the loop for figures; they are zero while it does not run.
func (d *Dispatcher) readStats() scheduler.Stats {
	if !d.started.Load() {
		return scheduler.Stats{}
	}
	reply := make(chan scheduler.Stats, 1)
	select {
	case d.stats <- reply:
		return <-reply
	case <-d.ended:
		return scheduler.Stats{}
	}
}

// work is what a message of the Router carries: one attempt of one delivery.
type work struct {
	attempt *scheduler.Attempt
	result  attempt.Result // set by the handler
	err     error          // why the handler could not make the attempt
	span    trace.Span     // nil: none
}

// KeepError keeps the handler's error, which Nack cannot carry.
func (w *work) KeepError(err error) { w.err = err }

// subscriber gives the Watermill Router its messages.
type subscriber struct {
	dispatcher *Dispatcher
	stop       chan struct{} // closed by Close
	once       sync.Once
	done       sync.WaitGroup
}

// Subscribe takes the first lease and starts delivering. Delivering ends when ctx ends or Close is
// called.
func (s *subscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	d := s.dispatcher
	if d.started.Swap(true) {
		return nil, errors.New("a dispatcher runs once")
	}
	lease, err := d.store.takeLease(ctx, d.clock())
	switch {
	case isClockError(err):
		// The other roles go on. The database does not know the lease made here, so nothing is
		// claimed under it. Its first renewal finds that it is lost, and then keepLease takes a
		// real one when it can.
		d.logger.ErrorContext(ctx, "cannot deliver", "error", err)
		lease = uuid.NewString()
	case databaseIsAway(err): // the same, as if the database had gone away a moment later
		d.outages.taking.LogTransition(ctx, err)
		lease = uuid.NewString()
	case err != nil:
		return nil, err
	default:
		d.maintain(ctx) // before anything is recorded, so that the history has a partition for today
	}
	out := make(chan *message.Message)
	s.done.Go(func() {
		defer close(out)
		d.run(ctx, s.stop, lease, out)
	})
	return out, nil
}

// databaseIsAway reports whether an error means that the server ended the connection, is starting
// or stopping, or cannot be reached.
func databaseIsAway(err error) bool {
	if of, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(of.Code, "08") || strings.HasPrefix(of.Code, "57P")
	}
	_, network := errors.AsType[net.Error](err)
	return network || pg.CannotConnect(err) || pgconn.SafeToRetry(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// Close stops starting attempts, waits until those in flight are recorded, and returns.
func (s *subscriber) Close() error {
	s.once.Do(func() { close(s.stop) })
	s.done.Wait()
	return nil
}

// await reports the result of an attempt when the Router is done with it.
func (d *Dispatcher) await(ctx context.Context, w *work, msg *message.Message) {
	select {
	case <-msg.Acked():
		if w.span != nil {
			ctx = trace.ContextWithSpan(ctx, w.span)
		}
		d.metrics.attempted(ctx, &w.result)
		d.logAttempt(ctx, w)
		d.post(scheduler.Attempted{Attempt: w.attempt, Result: w.result})
	case <-msg.Nacked():
		if w.err == nil {
			w.err = errors.New("the handler failed without an error")
		}
		d.post(scheduler.NotAttempted{Attempt: w.attempt, Err: w.err})
	}
}

// message returns the work as a message for the Router.
func (w *work) message(ctx context.Context) *message.Message {
	return flow.Message(ctx, w.attempt.DeliveryID(), w.attempt.Body, w)
}

// attemptTracer makes the spans of attempts. Most spans are not recorded and should cost next to
// nothing.
type attemptTracer struct {
	tracer  trace.Tracer // nil: no spans
	options []trace.SpanStartOption
}

func newAttemptTracer(tracer trace.Tracer) attemptTracer {
	return attemptTracer{tracer, []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)}}
}

// begin starts the span of an attempt, in the trace of the event's append if that was recorded, and
// otherwise in a new trace. The URL may contain a secret, so only the host is recorded.
func (t attemptTracer) begin(ctx context.Context, w *work) (spanned context.Context, end func()) {
	if t.tracer == nil {
		return ctx, func() {}
	}
	a := w.attempt
	ctx, w.span = t.tracer.Start(tracing.Within(ctx, a.Traced), "webhook attempt", t.options...)
	return ctx, func() {
		defer w.span.End()
		if !w.span.IsRecording() {
			return
		}
		w.span.SetAttributes(
			attribute.String("ledgerfeed.workspace", a.Key().WorkspaceID),
			attribute.String("ledgerfeed.webhook", a.Key().WebhookID),
			attribute.String("ledgerfeed.event", a.EventID),
			attribute.String("ledgerfeed.event_type", a.EventType),
			attribute.Int("ledgerfeed.attempt", a.Number()),
			attribute.String("ledgerfeed.outcome", string(w.result.Outcome)),
			attribute.String("server.address", a.Endpoint.URL.Hostname()),
			attribute.Int("http.response.status_code", w.result.Status),
		)
		if !w.result.Success() {
			w.span.SetStatus(codes.Error, w.result.Error)
		}
	}
}

const (
	// tracesTimeout bounds how long deliveries wait for reading traces.
	tracesTimeout = 200 * time.Millisecond
	// traceRetention is how long the trace of an append is kept. Most tracing systems keep traces
	// no longer.
	traceRetention = 7 * 24 * time.Hour
	// tracesSlice is how many traces one transaction deletes.
	tracesSlice = 10_000
)

// forgetTraces deletes the traces of appends that are older than traceRetention, tracesSlice per
// transaction. If another transaction has locked some, it leaves the rest for the next time.
func (s *store) forgetTraces(ctx context.Context, now time.Time) error {
	for deleted := int64(tracesSlice); deleted == tracesSlice; {
		err := pg.InLimitedTx(ctx, s.pool, lockTimeout, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, `
				DELETE FROM append_trace WHERE ctid = ANY (ARRAY(
				       SELECT ctid FROM append_trace WHERE recorded_at < $1 LIMIT $2))`,
				now.Add(-traceRetention), tracesSlice)
			if err != nil {
				return fmt.Errorf("delete old traces of appends: %w", err)
			}
			deleted = tag.RowsAffected()
			return nil
		})
		if pg.Locked(err) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readTraces adds to polled the traces in which the events were appended, one for each event even
// if several were recorded.
func (s *store) readTraces(ctx context.Context, polled *scheduler.Polled) error {
	var workspaces, events []string
	attempts := map[[2]string][]*scheduler.Attempt{}
	for i := range polled.Results {
		w := polled.Poll.Requests[i].Key.WorkspaceID
		for _, list := range polled.Results[i].Attempts {
			for _, a := range list {
				key := [2]string{w, a.EventID}
				if attempts[key] == nil {
					workspaces, events = append(workspaces, w), append(events, a.EventID)
				}
				attempts[key] = append(attempts[key], a)
			}
		}
	}
	if len(events) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tracesTimeout)
	defer cancel()
	var workspace, event, traceparent string
	err := pg.ForEach(ctx, s.pool, tracesSQL, []any{workspaces, events}, []any{&workspace, &event, &traceparent}, func() error {
		for _, a := range attempts[[2]string{workspace, event}] {
			a.Traced = traceparent
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read traces: %w", err)
	}
	return nil
}

// tracesSQL returns the first trace of each event in $2; $1 holds the workspace of each.
const tracesSQL = `
	SELECT k.workspace_id, k.event_id, t.traceparent
	  FROM unnest($1::text[], $2::text[]) AS k (workspace_id, event_id)
	 CROSS JOIN LATERAL (
	       SELECT traceparent FROM append_trace t
	        WHERE t.workspace_id = k.workspace_id AND t.event_id = k.event_id
	        ORDER BY traceparent LIMIT 1) AS t`
