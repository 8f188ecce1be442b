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

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
)

// ReadModels is the consumer whose checkpoint is a workspace's visible
// position.
const ReadModels = "read_models"

// Config configures a Log.
type Config struct {
	Pool pg.DB

	// Clock gives the publish time of entries that bring none.
	Clock func() time.Time

	// Notify is called with TopicAppended after each append; nil: the Log uses a Notifier of its
	// own, which notifies the processes that serve.
	Notify NotifyFunc

	// Batchers is the maximum number of transactions of single appends in flight. Default: one per
	// processor, and at least 2; with more, the callers in one process contend.
	Batchers int

	// Tracer makes a span for each append. If the span is recorded, the database remembers which
	// entries it appended, so that the spans of their deliveries link to it. nil: no spans, no
	// links.
	Tracer trace.Tracer

	// LockTimeout is how long an append waits for the lock of a workspace. Default 10 s.
	LockTimeout time.Duration

	// Metrics registers the metrics of appends: their number and duration; nil: none.
	Metrics prometheus.Registerer
}

// Log appends to and reads from the log. It is safe for concurrent use.
type Log struct {
	pool     pg.DB
	clock    func() time.Time
	notify   NotifyFunc
	metrics  *metrics
	tracer   trace.Tracer                      // nil: none
	batchers []*flow.Coalescer[*pendingAppend] // the hash of a workspace's id selects one
	seed     maphash.Seed                      // of that hash, so that processes differ

	lockTimeout time.Duration
	lockQueues  lockQueues
	lockSlots   lockSlots
}

// New makes a Log; it starts nothing and needs no closing.
func New(cfg Config) (*Log, error) {
	if cfg.Pool == nil || cfg.Clock == nil {
		return nil, errors.New("eventlog: Config needs a Pool and a Clock")
	}
	if cfg.Batchers < 0 || cfg.LockTimeout < 0 {
		return nil, errors.New("eventlog: Config.Batchers and Config.LockTimeout must not be negative")
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
		lockTimeout: cmp.Or(cfg.LockTimeout, defaultLockTimeout),
		lockQueues:  lockQueues{of: map[string]*lockQueue{}},
		// Half of the connections stay free for appends that need not wait.
		lockSlots: make(lockSlots, max(1, pg.Size(cfg.Pool)/2)),
	}
	for range cmp.Or(cfg.Batchers, max(2, runtime.GOMAXPROCS(0))) {
		l.batchers = append(l.batchers, l.newBatcher())
	}
	return l, nil
}

// RightClock returns the SQL condition that a process's clock is right, by the rule that the log
// applies to appends. now is the clock's time as SQL.
func RightClock(now string) string {
	return `((` + now + `::timestamptz BETWEEN log_clock_stable() - interval '5 minutes' AND log_clock_stable() + interval '5 minutes') IS NOT FALSE)`
}

// CheckClock compares a process's clock with the database's by the rule of RightClock. It returns a
// *ClockError if the clock is wrong.
func CheckClock(ctx context.Context, pool pg.DB, now time.Time) error {
	var (
		right bool
		e     ClockError
	)
	err := pool.QueryRow(ctx, `SELECT `+RightClock("$1")+`, log_stamp($1), log_stamp(coalesce(log_clock(), $1))`, now).Scan(&right, &e.Now, &e.Database)
	if err != nil {
		return fmt.Errorf("compare the clock with the database's: %w", err)
	}
	if right {
		return nil
	}
	return &e
}

// Clock returns the time by which the log judges whether an entry is ahead: the database's,
// whatever the process's clock says.
func (l *Log) Clock(ctx context.Context) (now time.Time, err error) {
	if err := l.pool.QueryRow(ctx, `SELECT date_trunc('milliseconds', coalesce(log_clock(), $1))`, l.clock()).Scan(&now); err != nil {
		return time.Time{}, fmt.Errorf("ask for the database's time: %w", err)
	}
	return now.UTC(), nil
}

// trace begins the span of an append, if there is a tracer. end ends it with the append's error.
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

// recorded returns the span of an append in the form that log_trace takes; empty: no span is
// recorded.
func (l *Log) recorded(ctx context.Context) string {
	if l.tracer == nil {
		return ""
	}
	return tracing.Recorded(ctx)
}

// call names the method that appends entries.
type call string

const (
	callAppend   call = "append"
	callAppendTx call = "append_tx"
	callRestore  call = "restore"
)

// How an append ends, for its metrics.
const (
	ended   = "appended" // all of its entries are in the log, including those it already held
	refused = "refused"  // the log refuses an entry
	failed  = "failed"   // anything else: locked, disconnected, canceled
)

// metrics holds the metrics of a Log.
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

// observe counts an append and its duration, with its trace as the exemplar.
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
