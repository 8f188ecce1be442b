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
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

// PoolSettings are the run-time parameters for connections that project. They
// only look rows up by key, so sequential scans, hash joins and merge joins are
// off. So are sorts: a statement that wants the order of an index is read along that
// index, whatever statistics say (table.alongKey). The choice between generic and custom plans is left to PostgreSQL: a
// generic plan that is forced at the first use, while the tables are empty,
// would use any index that begins with the workspace, and keep it while they
// grow.
//
// A statement that finds a row locked gives up soon: a claim has the checkpoints of
// many workspaces, which would all wait for one of them. It is then tried again
// without that workspace.
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

// lockTimeout is how long a statement of a claim waits for a row that another
// transaction has locked, such as that of a person at psql.
const lockTimeout = 200 * time.Millisecond

// DefaultWorkers is how many claims a Runner works on at once, beside DefaultMassWorkers
// that change many rows and one of a workspace that may end the process. Connections is how
// many connections it uses then, and LeastConnections how many it needs. All of these
// workers could have a claim at once; where they are more than the connections but one, a
// claim waits for another to end, which those of few rows do soon.
const (
	DefaultWorkers     = 3
	DefaultMassWorkers = 3
	Connections        = 6
	LeastConnections   = 4
)

// WorkersFor is how many workers there are with so many connections, and how many that
// change many rows. These leave some to the others.
func WorkersFor(connections int) (workers, massWorkers int) {
	return connections - Connections + DefaultWorkers, max(2, connections-Connections+DefaultMassWorkers)
}

// RunnerConfig of a Runner.
type RunnerConfig struct {
	Pool     *pgxpool.Pool // opened with PoolSettings; at least LeastConnections
	Notifier *eventlog.Notifier
	Clock    func() time.Time
	Logger   *slog.Logger
	Metrics  prometheus.Registerer // nil: none
	Tracer   trace.Tracer          // makes a span of each claim; nil: none

	Rules   Rules // default LiveRules
	Workers int   // claims in progress at once, beside those that change many rows; default DefaultWorkers
	// MassWorkers is how many claims that change many rows are in progress at once. Of two or
	// more, one is kept for short claims. Default DefaultMassWorkers.
	MassWorkers int
	// Workspaces is the most workspaces of a claim; default as the log's.
	Workspaces int

	Entries  int           // at most so many entries in a claim; default 1000
	MassRows int           // see Projection
	LongRows int           // more rows than so many are a change that takes long, which one worker is kept free of; default 5000
	LongTime time.Duration // and so is more work than for so long; default 1 s
	Sweep    time.Duration // at least so much time between two sweeps; default 2 s
}

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
	long := bound{cmp.Or(cfg.LongRows, 5000), cmp.Or(cfg.LongTime, time.Second)}
	cfg.Rules = cfg.Rules.OrLive()
	projector, err := newProjector(table.NewSet(), cfg.Rules, cfg.MassRows, long, cfg.Logger, cfg.Metrics)
	if err != nil {
		return nil, err
	}
	projector.tracer = cfg.Tracer
	subscriber, err := eventlog.NewSubscriber(eventlog.SubscriberConfig{
		Pool: cfg.Pool, Notifier: cfg.Notifier, Clock: cfg.Clock, Logger: cfg.Logger,
		Rules: cfg.Rules.Version, Workers: cfg.Workers, MassWorkers: cfg.MassWorkers, Workspaces: cfg.Workspaces, Entries: cfg.Entries, Sweep: cfg.Sweep,
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
	// KeepError is outside of Recoverer, so that it also gets what was a panic.
	router.AddMiddleware(eventlog.KeepError, middleware.Recoverer)
	router.AddConsumerHandler(eventlog.ReadModels, eventlog.ReadModels, subscriber, projector.handle)
	return &Runner{router, subscriber}, nil
}

// Probe does what a claim begins with. The error says what is in the way.
func (r *Runner) Probe(ctx context.Context) error {
	if err := r.subscriber.Probe(ctx, eventlog.ReadModels); err != nil {
		return fmt.Errorf("claim entries: %w", err)
	}
	return nil
}

// Run projects until ctx ends, finishes the claims in progress, and returns.
func (r *Runner) Run(ctx context.Context) error {
	err := r.router.Run(ctx)
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("projector: %w", err)
	}
	return nil
}
