package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// Config of an Engine.
type Config struct {
	Pool     *pgxpool.Pool // required; it uses up to 8 connections, best opened with PoolSettings
	Keyring  *Keyring      // required
	Notifier *eventlog.Notifier
	Clock    func() time.Time // required
	Logger   *slog.Logger     // required
	Metrics  prometheus.Registerer

	Settings Settings
	Mail     MailSettings

	// Bound is the most messages of one webhook under way: started, and what
	// came of them not yet in the database. Default 10.
	Bound int

	// Limit is the most attempts under way in the process. Above half of it,
	// webhooks get even shares. Default 2000.
	Limit int

	// Pace is how many attempts a second there are for all webhooks together that
	// do nothing but fail, each time with a new connection or for want of an answer
	// in time. Ten seconds' worth may come at once. Default 8 for each processor.
	Pace int

	// Lease is within how long another process takes over what this one held
	// when it dies. Three quarters of it must be longer than the timeout of an
	// attempt and two sweeps. Default: the timeout and 20 s, or twice the timeout.
	Lease time.Duration

	// Sweep is how often webhooks are looked for whose wake-up was lost.
	// Default 1 s. A sweep never takes more than 2 % of the time.
	Sweep time.Duration

	// Idle is after how long without work a webhook is let go. Until then its
	// next event needs no claim, which is a commit and three round trips.
	// Default 1 min.
	Idle time.Duration

	// Resolver looks names up; nil: the system's, without cgo.
	Resolver *net.Resolver
}

// PoolSettings are the run-time parameters for connections that deliver: the
// statements look rows up by key, with plans that do not depend on how many.
func PoolSettings() map[string]string {
	return map[string]string{"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}
}

// Engine delivers. Any number of programs may run one against a database.
type Engine struct {
	cfg     Config
	rows    *rows
	desk    *desk
	sender  *Sender
	mailer  *mailer
	notify  eventlog.NotifyFunc
	clock   func() time.Time
	logger  *slog.Logger
	metrics *metrics

	lease     sync.RWMutex // guards rows.self: held for writing while a new lease is taken
	renewed   atomic.Int64 // when the lease was last renewed, in nanoseconds since began
	began     time.Time
	lost      chan string    // names of leases that are over
	orphaned  chan struct{}  // one token when a process has died that held webhooks
	group     sync.WaitGroup // goroutines that a decision started
	behind    atomic.Int64   // cursors behind, by the last sweep
	subscribe sync.Once
}

// New makes an Engine; it starts nothing.
func New(cfg Config) (*Engine, error) {
	if cfg.Pool == nil || cfg.Keyring == nil || cfg.Notifier == nil || cfg.Clock == nil || cfg.Logger == nil {
		return nil, errors.New("delivery: Config needs a Pool, a Keyring, a Notifier, a Clock and a Logger")
	}
	var err error
	if cfg.Settings, err = cfg.Settings.withDefaults(); err != nil {
		return nil, err
	}
	cfg.Bound = cmp.Or(cfg.Bound, 10)
	cfg.Limit = cmp.Or(cfg.Limit, 2000)
	cfg.Pace = cmp.Or(cfg.Pace, defaultPace())
	cfg.Lease = cmp.Or(cfg.Lease, max(cfg.Settings.Timeout+20*time.Second, 2*cfg.Settings.Timeout))
	cfg.Sweep = cmp.Or(cfg.Sweep, time.Second)
	cfg.Idle = cmp.Or(cfg.Idle, time.Minute)
	lease := cfg.Lease * 3 / 4 // others notice by their next renewal; both together are within the lease
	if lease <= cfg.Settings.Timeout+2*cfg.Sweep {
		return nil, errors.New("delivery: three quarters of the lease have to be longer than the timeout of an attempt and two sweeps")
	}
	e := &Engine{
		cfg: cfg, notify: cfg.Notifier.Notify, clock: cfg.Clock, logger: cfg.Logger,
		rows: &rows{pool: cfg.Pool, keyring: cfg.Keyring, lease: lease},
		desk: newDesk(cfg.Clock, cfg.Settings.policy(), cfg.Bound, cfg.Limit, cfg.Pace),
		lost: make(chan string, 8), orphaned: make(chan struct{}, 1), began: time.Now(),
	}
	if e.sender, err = NewSender(SenderConfig{Settings: cfg.Settings, Clock: cfg.Clock, Resolver: cfg.Resolver}); err != nil {
		return nil, err
	}
	if e.mailer, err = newMailer(cfg.Mail, cfg.Pool, cfg.Clock, cfg.Logger); err != nil {
		return nil, err
	}
	if e.metrics, err = newMetrics(cfg.Metrics, e); err != nil {
		return nil, err
	}
	return e, nil
}

// topic names the one stream of messages there is, for Watermill.
const topic = "webhooks"

// Run delivers until ctx ends, lets what is under way finish and be recorded,
// and returns. It may be called once.
func (e *Engine) Run(ctx context.Context) error {
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: e.cfg.Settings.Timeout + 2*closePatience}, flow.Quietly(e.logger))
	if err != nil {
		return fmt.Errorf("delivery: %w", err)
	}
	// KeepError is outside of Recoverer, so that it hears of panics too.
	router.AddMiddleware(flow.KeepError[*job], middleware.Recoverer)
	router.AddConsumerHandler(topic, topic, &subscriber{engine: e, stop: make(chan struct{})}, e.handle)
	defer e.sender.Close()
	if err := router.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("delivery: %w", err)
	}
	return nil
}

// handle is the handler of the Watermill Router: it makes the attempt.
func (e *Engine) handle(msg *message.Message) error {
	j, err := flow.Work[*job](msg)
	if err != nil {
		return fmt.Errorf("delivery: %w", err)
	}
	h := j.hook
	if h.broken != nil {
		return h.broken
	}
	j.attempt = e.sender.Send(msg.Context(), &Message{
		URL: h.url, WebhookID: j.lane.key.webhookID, EventID: j.eventID, Body: j.body,
		Secrets: h.secrets(e.clock()), DeliveryID: j.deliveryID(),
	})
	return nil
}
