package eventlog

import (
	"cmp"
	"errors"
	"hash/maphash"
	"log/slog"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/ledgerfeed/ledgerfeed/internal/batch"
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
