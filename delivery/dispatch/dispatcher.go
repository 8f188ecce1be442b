package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/delivery/mail"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
)

// Config configures a Dispatcher.
type Config struct {
	Pool     *pgxpool.Pool      // required; up to 8 connections are used; open it with PoolSettings
	Keyring  *keyring.Keyring   // required
	Notifier *eventlog.Notifier // required
	Clock    func() time.Time   // required
	Logger   *slog.Logger       // required
	Metrics  prometheus.Registerer
	Tracer   trace.Tracer // makes a span of each attempt, whose trace receivers are told of; nil: none

	Settings policy.Settings
	Mail     mail.Settings

	// Bound is the largest number of attempts of one webhook that are started and
	// not yet recorded. Default 10.
	Bound int

	// Limit is the largest number of attempts under way in the process. Above half
	// of it, webhooks get even shares. Default 2000.
	Limit int

	// CostlyPerSecond is the rate of attempts for all webhooks together that keep
	// failing expensively, with a new connection or a timeout each; ten seconds'
	// worth may be made at once. Default 8 for each processor, which is about 1 %
	// of it.
	CostlyPerSecond int

	// Lease is the time within which another process takes over the webhooks of
	// one that died. Three quarters of it must be longer than the timeout of an
	// attempt and two sweeps. Default: the larger of the timeout plus 20 s, and
	// twice the timeout.
	Lease time.Duration

	// Renew is how often the lease is renewed. Then this process also notices that its clock
	// was set, or that another process died. Default an eighth of Lease.
	Renew time.Duration

	// Sweep is how often the database is searched for webhooks whose notification
	// was lost. Default 1 s. Sweeps never take more than 2 % of the time.
	Sweep time.Duration

	// Idle is how long a webhook without work is held. Its next event needs no
	// claim as long as it is held: a commit and three round trips. Default 1 min.
	Idle time.Duration

	// Resolver looks up names; nil: Go's resolver with the system's settings.
	Resolver *net.Resolver
}

const costlyPerProcessor = 8

// PoolSettings returns the run-time parameters for the connections of a
// Dispatcher: its statements look up rows by key, with plans that do not depend
// on how many there are. Without sorts, a range of one value in the order of its column is
// read along the index that has this order, whatever statistics say of a webhook; an equality
// may be read along any index that begins with the webhook.
func PoolSettings() map[string]string {
	return map[string]string{"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_sort": "off", "jit": "off"}
}

// Dispatcher delivers. Any number of processes may run one on a database.
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
	takeLease chan string               // the lease that is over, to the lease keeper
	orphaned  chan struct{}             // a process died that held webhooks: sweep now
	lease     atomic.Pointer[string]    // the current one, for sweeps
	started   atomic.Bool
}

// Probe does what a claim does, of no webhook. The error says what is in the way.
func (d *Dispatcher) Probe(ctx context.Context) error {
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
	// Others notice that a lease is over at their next renewal; both together must
	// be within Config.Lease.
	lease := cfg.Lease * 3 / 4
	if lease <= cfg.Settings.Timeout+2*cfg.Sweep {
		return nil, errors.New("dispatch: three quarters of the lease must be longer than the timeout of an attempt and two sweeps")
	}
	cfg.Renew = cmp.Or(cfg.Renew, lease/renewals)
	d := &Dispatcher{
		cfg: cfg, notify: cfg.Notifier.Notify, clock: cfg.Clock, logger: cfg.Logger, outages: newOutages(cfg.Logger), traces: newAttemptTracer(cfg.Tracer), rollups: rollup.NewWriter(cfg.Pool, cfg.Logger),
		store:  &store{pool: cfg.Pool, keyring: cfg.Keyring, leaseTime: lease},
		events: make(chan scheduler.Event, 1024), stats: make(chan chan scheduler.Stats), ended: make(chan struct{}),
		takeLease: make(chan string, 1), orphaned: make(chan struct{}, 1),
	}
	if d.sender, err = attempt.NewSender(attempt.SenderConfig{Settings: cfg.Settings, Clock: cfg.Clock, Resolver: cfg.Resolver}); err != nil {
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

// closeTimeout bounds what is done after the last attempt has ended.
const closeTimeout = 15 * time.Second

// Run delivers until ctx ends, lets attempts under way finish, records them, and
// returns. It may be called once.
func (d *Dispatcher) Run(ctx context.Context) error {
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: d.cfg.Settings.Timeout + 2*closeTimeout}, flow.RouterLogger(d.logger))
	if err != nil {
		return fmt.Errorf("dispatch: %w", err)
	}
	// KeepError is outside of Recoverer, so that it sees the errors of panics.
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

// post gives an event to the loop. Events that come after its end are dropped.
func (d *Dispatcher) post(e scheduler.Event) {
	select {
	case d.events <- e:
	case <-d.ended:
	}
}

// readStats asks the loop for figures; zero when it does not run.
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
