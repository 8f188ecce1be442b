package projections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/metrics"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// PoolSettings are the run-time parameters for connections that project. They
// only ever look rows up by key, so plans that read tables whole are not to be
// had, whatever the statistics say. The choice between plans made for all
// values and for these is left to PostgreSQL: one made for all values at the
// first use, while the tables were empty, would take any index of a workspace
// for as good as the key, and keep it while they grow.
func PoolSettings() map[string]string {
	return map[string]string{
		"enable_seqscan":   "off",
		"enable_hashjoin":  "off",
		"enable_mergejoin": "off",
		"jit":              "off",
	}
}

// DefaultWorkers is how many claims a Runner has under way at once.
const DefaultWorkers = 3

// RunnerConfig of a Runner.
type RunnerConfig struct {
	Pool     *pgxpool.Pool // opened with PoolSettings; at least Workers+1 connections
	Notifier *eventlog.Notifier
	Clock    func() time.Time
	Logger   *slog.Logger
	Metrics  prometheus.Registerer // nil: none

	Rules   Rules         // default LiveRules
	Workers int           // claims under way at once; default DefaultWorkers
	Entries int           // the most entries of a claim; default 1000
	Sweep   time.Duration // the least time between two sweeps; default 2 s
}

// Runner projects as long as it runs: the Watermill Router with the projector
// as its handler. Any number of programs may run one against a database.
type Runner struct {
	router *message.Router
}

// segmentTimeout bounds the handling of one claim, so that a database that
// hangs does not hold its locks for ever.
const segmentTimeout = 2 * time.Minute

// NewRunner makes a Runner.
func NewRunner(cfg RunnerConfig) (*Runner, error) {
	if cfg.Workers == 0 {
		cfg.Workers = DefaultWorkers
	}
	cfg.Rules = cfg.Rules.OrLive()
	projector, err := newProjector(cfg.Rules, cfg.Metrics)
	if err != nil {
		return nil, err
	}
	subscriber, err := eventlog.NewSubscriber(eventlog.SubscriberConfig{
		Pool: cfg.Pool, Notifier: cfg.Notifier, Clock: cfg.Clock, Logger: cfg.Logger,
		Rules: cfg.Rules.Version, Workers: cfg.Workers, Entries: cfg.Entries, Sweep: cfg.Sweep,
	})
	if err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: segmentTimeout}, flow.Quietly(cfg.Logger))
	if err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	if cfg.Metrics != nil {
		metrics.NewPrometheusMetricsBuilder(cfg.Metrics, "ledgerfeed", "projector").AddPrometheusRouterMetrics(router)
	}
	// KeepError is outside of Recoverer, so that it hears of panics too.
	router.AddMiddleware(eventlog.KeepError, middleware.Recoverer, middleware.Timeout(segmentTimeout), middleware.CorrelationID)
	router.AddConsumerHandler(eventlog.ReadModels, eventlog.ReadModels, subscriber, projector.handle)
	return &Runner{router: router}, nil
}

// Run projects until ctx ends, finishes what is under way, and returns.
func (r *Runner) Run(ctx context.Context) error {
	err := r.router.Run(ctx)
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("projector: %w", err)
	}
	return nil
}
