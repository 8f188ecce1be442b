package projections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/metrics"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

// PoolSettings returns the run-time parameters for the connections of the projector. It only looks
// rows up by key, so sequential scans, hash joins and merge joins are off. Sorts are off, too: a
// statement that wants the order of an index then reads along that index, whatever the statistics
// say (table.alongKey). The choice between generic and custom plans is left to PostgreSQL: forcing
// a generic plan at the first use, while the tables are empty, would pick any index that begins
// with the workspace, and keep it while the tables grow.
//
// A statement that finds a row locked gives up soon: a claim holds the checkpoints of many
// workspaces, which would all wait for one of them. The claim is then retried without that
// workspace.
func PoolSettings() map[string]string {
	return map[string]string{
		"enable_seqscan":   "off",
		"enable_hashjoin":  "off",
		"enable_mergejoin": "off",
		"enable_sort":      "off",
		"jit":              "off",
		"lock_timeout":     strconv.FormatInt(lockTimeout.Milliseconds(), 10),
	}
}

// lockTimeout is how long a claim's statement waits for a row that another transaction has locked,
// such as the transaction of a person at psql.
const lockTimeout = 200 * time.Millisecond

// DefaultWorkers is how many claims a Runner works on at once. In addition, it works on
// DefaultMassWorkers claims that change many rows, and on one claim of a workspace that may end the
// process. Connections is how many connections a Runner then uses if all claims share one pool.
const (
	DefaultWorkers     = 3
	DefaultMassWorkers = 3
	Connections        = 6
)

// RunnerConfig configures a Runner.
type RunnerConfig struct {
	// Pool is for claims, MassPool for claims that change very many rows, and AuxPool for writes
	// alongside claims, all with PoolSettings; see eventlog.SubscriberConfig. Without AuxPool, Pool
	// needs Connections connections.
	Pool, MassPool, AuxPool pg.DB

	Notifier *eventlog.Notifier
	Clock    func() time.Time
	Logger   *slog.Logger
	Metrics  prometheus.Registerer // nil: none
	Tracer   trace.Tracer          // makes a span for each claim; nil: none

	Rules   Rules // default LiveRules
	Workers int   // claims in flight at once, in addition to those that change many rows; default DefaultWorkers
	// MassWorkers is how many claims that change many rows are in flight at once. If there are two
	// or more workers, one is reserved for short claims. Default DefaultMassWorkers.
	MassWorkers int

	Entries  int           // the most entries in a claim; default 1000
	MassRows int           // see Projection
	LongRows int           // a change of more rows than this, or of more than longTime, is long, and one worker is kept free of long changes; default 5000
	Sweep    time.Duration // the least time between two sweeps; default 2 s
}

// longTime is the work from which on a change is long, however few rows it changes.
const longTime = time.Second

// Runner keeps the read tables up to date while it runs: it is a Watermill Router
// with the projector as its handler. Any number of processes may run one against
// a database.
type Runner struct {
	router     *message.Router
	subscriber *eventlog.Subscriber
}

// NewRunner makes a Runner.
func NewRunner(cfg RunnerConfig) (*Runner, error) {
	cfg.Workers = cmp.Or(cfg.Workers, DefaultWorkers)
	cfg.MassWorkers = cmp.Or(cfg.MassWorkers, DefaultMassWorkers)
	long := bound{cmp.Or(cfg.LongRows, 5000), longTime}
	cfg.Rules = cfg.Rules.OrLive()
	projector, err := newProjector(table.NewSet(), cfg.Rules, cfg.MassRows, long, cfg.Logger, cfg.Metrics)
	if err != nil {
		return nil, err
	}
	projector.tracer = cfg.Tracer
	subscriber, err := eventlog.NewSubscriber(eventlog.SubscriberConfig{
		Pool: cfg.Pool, MassPool: cfg.MassPool, AuxPool: cfg.AuxPool, Notifier: cfg.Notifier, Clock: cfg.Clock, Logger: cfg.Logger,
		Rules: cfg.Rules.Version, Workers: cfg.Workers, MassWorkers: cfg.MassWorkers, Entries: cfg.Entries, Sweep: cfg.Sweep,
	})
	if err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: stallTimeout}, flow.RouterLogger(cfg.Logger))
	if err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	if cfg.Metrics != nil {
		metrics.NewPrometheusMetricsBuilder(cfg.Metrics, "ledgerfeed", "projector").AddPrometheusRouterMetrics(router)
	}
	// KeepError wraps Recoverer, so that it also gets the errors that were panics.
	router.AddMiddleware(eventlog.KeepError, middleware.Recoverer)
	router.AddConsumerHandler(eventlog.ReadModels, eventlog.ReadModels, subscriber, projector.handle)
	return &Runner{router, subscriber}, nil
}

// Probe runs the statement that begins a claim, without claiming a workspace. The error says why
// claims fail.
func (r *Runner) Probe(ctx context.Context) error {
	if err := r.subscriber.Probe(ctx, eventlog.ReadModels); err != nil {
		return fmt.Errorf("claim entries: %w", err)
	}
	return nil
}

// Run projects until ctx ends, finishes the claims in flight, and returns.
func (r *Runner) Run(ctx context.Context) error {
	err := r.router.Run(ctx)
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("projector: %w", err)
	}
	return nil
}
