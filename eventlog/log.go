package eventlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/batch"
	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
)

// ReadModels is the consumer whose checkpoint is a workspace's visible
// position.
const ReadModels = "read_models"

// Config of a Log.
type Config struct {
	Pool *pgxpool.Pool

	// Clock gives the publish time of entries that bring none.
	Clock func() time.Time

	// Notify is called with TopicAppended after each append; nil: that of a Notifier of the
	// Log's own, which notifies the processes that serve.
	Notify NotifyFunc

	// Batchers is how many transactions of single appends may be under way at
	// once. Default: one a processor, and at least 2; with more, the callers of
	// one process contend.
	Batchers int

	// Tracer makes a span of each append, and the database remembers which entries were
	// appended in a span that is recorded, so that the spans of their deliveries are
	// linked to it; nil: neither.
	Tracer trace.Tracer

	// HeldTimeout is how long an append waits for a workspace that another
	// transaction holds. Default 10 s.
	HeldTimeout time.Duration

	// Metrics registers how many appends there are and how long they take; nil:
	// nothing is.
	Metrics prometheus.Registerer
}

// Log appends to and reads from the log. It is safe for concurrent use.
type Log struct {
	pool     *pgxpool.Pool
	clock    func() time.Time
	notify   NotifyFunc
	metrics  *metrics
	tracer   trace.Tracer                       // nil: none
	batchers []*batch.Coalescer[*pendingAppend] // a workspace's is found by the hash of its id
	seed     maphash.Seed                       // of that hash, so that processes differ

	heldTimeout time.Duration
	held        heldQueues
	turns       turns
}

// New makes a Log; it starts nothing and needs no closing.
func New(cfg Config) (*Log, error) {
	if cfg.Pool == nil || cfg.Clock == nil {
		return nil, errors.New("eventlog: Config needs a Pool and a Clock")
	}
	if cfg.Batchers < 0 || cfg.HeldTimeout < 0 {
		return nil, errors.New("eventlog: Config.Batchers and Config.HeldTimeout must not be negative")
	}
	if cfg.Notify == nil {
		cfg.Notify = NewNotifier(cfg.Pool, slog.New(slog.DiscardHandler)).Notify
	}
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	l := &Log{
		pool: cfg.Pool, clock: cfg.Clock, notify: cfg.Notify, metrics: m, tracer: cfg.Tracer, seed: maphash.MakeSeed(),
		heldTimeout: cmp.Or(cfg.HeldTimeout, defaultHeldTimeout),
		held:        heldQueues{of: map[string]*heldQueue{}},
		// Half of the connections are left to those that need not wait.
		turns: make(turns, max(1, cfg.Pool.Config().MaxConns/2)),
	}
	for range cmp.Or(cfg.Batchers, max(2, runtime.GOMAXPROCS(0))) {
		l.batchers = append(l.batchers, l.newBatcher())
	}
	return l, nil
}

// RightClock is the SQL condition that a process's clock, as SQL, is right: the rule by
// which the log refuses appends.
func RightClock(now string) string {
	return `coalesce(` + now + `::timestamptz BETWEEN log_clock() - interval '5 minutes' AND log_clock() + interval '5 minutes', true)`
}

// CheckClock compares a process's clock with the database's by that rule; nil: it is
// right.
func CheckClock(ctx context.Context, pool *pgxpool.Pool, now time.Time) (*ClockError, error) {
	var (
		right bool
		e     ClockError
	)
	err := pool.QueryRow(ctx, `SELECT `+RightClock("$1")+`, log_stamp($1), log_stamp(coalesce(log_clock(), $1))`, now).Scan(&right, &e.Now, &e.Database)
	if err != nil {
		return nil, fmt.Errorf("compare the clock with the database's: %w", err)
	}
	if right {
		return nil, nil //nolint:nilnil // nil is a clock that is right
	}
	return &e, nil
}

// Clock is the time by which the log judges whether an entry is ahead: the database's, whatever
// the process's clock says.
func (l *Log) Clock(ctx context.Context) (now time.Time, err error) {
	if err := l.pool.QueryRow(ctx, `SELECT date_trunc('milliseconds', coalesce(log_clock(), $1))`, l.clock()).Scan(&now); err != nil {
		return time.Time{}, fmt.Errorf("ask for the database's time: %w", err)
	}
	return now.UTC(), nil
}

// trace begins the span of an append, if there is a tracer; end takes its result.
func (l *Log) trace(ctx context.Context, drafts []domain.Draft) (spanned context.Context, end func(error)) {
	if l.tracer == nil {
		return ctx, func(error) {}
	}
	ctx, span := l.tracer.Start(ctx, "append", trace.WithSpanKind(trace.SpanKindProducer))
	if span.IsRecording() {
		span.SetAttributes(attribute.Int("ledgerfeed.entries", len(drafts)), attribute.String("ledgerfeed.workspace", drafts[0].WorkspaceID))
	}
	return ctx, func(err error) { tracing.End(span, err) }
}

// recorded is the span of an append in the form that log_trace takes; empty: there is
// none that is recorded.
func (l *Log) recorded(ctx context.Context) string {
	if l.tracer == nil {
		return ""
	}
	return tracing.Recorded(ctx)
}

// call is by which method entries are appended.
type call string

const (
	callAppend   call = "append"
	callAppendTx call = "append_tx"
	callRestore  call = "restore"
)

// How an append ends, for its metrics.
const (
	ended   = "appended" // all of its entries are in the log, also those that were before
	refused = "refused"  // the log refuses an entry
	failed  = "failed"   // anything else: held, disconnected, given up
)

// metrics of a Log.
type metrics struct {
	duration *prometheus.HistogramVec
	entries  *prometheus.CounterVec
}

// newMetrics registers the metrics unless the registerer is nil.
func newMetrics(register prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ledgerfeed_append_seconds",
			Help: "Duration of appends by this process, by call (append; append_tx, without the commit, which is its caller's; restore) and outcome (appended, refused, failed).",

			Buckets:                     []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
		}, []string{"call", "outcome"}),
		entries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_append_entries_total",
			Help: "Entries that this process appended, by call, and whether they are new or were skipped because the log had them. Those of append_tx are there if their transaction commits.",
		}, []string{"call", "entry"}),
	}
	for _, c := range []call{callAppend, callAppendTx, callRestore} {
		for _, outcome := range []string{ended, refused, failed} {
			m.duration.WithLabelValues(string(c), outcome)
		}
		m.entries.WithLabelValues(string(c), "new")
		m.entries.WithLabelValues(string(c), "skipped")
	}
	if register == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.duration, m.entries} {
		if err := register.Register(c); err != nil {
			return nil, fmt.Errorf("eventlog: register metrics: %w", err)
		}
	}
	return m, nil
}

// observe counts an append that began at a moment, with its trace as the exemplar.
func (m *metrics) observe(ctx context.Context, c call, began time.Time, receipts []Receipt, err error) {
	outcome := ended
	if _, ok := errors.AsType[*RefusedError](err); ok {
		outcome = refused
	} else if err != nil {
		outcome = failed
	}
	tracing.Observe(ctx, m.duration.WithLabelValues(string(c), outcome), time.Since(began).Seconds())
	if err != nil {
		return
	}
	var skipped int
	for i := range receipts {
		if receipts[i].Skipped {
			skipped++
		}
	}
	m.entries.WithLabelValues(string(c), "new").Add(float64(len(receipts) - skipped))
	m.entries.WithLabelValues(string(c), "skipped").Add(float64(skipped))
}
