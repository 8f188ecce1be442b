package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/bus"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// How many claims are sent at once, of how many entries, and of how many workspaces at
// least where many have a backlog: a broker answers each message after a round trip, and
// the next one of its workspace waits for that.
const (
	workers         = 4
	claimEntries    = 4000
	claimWorkspaces = 16
)

// Connections is how many connections of a pool a Relay needs: each worker has one while
// it sends, and needs another one at times.
const Connections = workers + 4

// claimTimeout is how long a claim is sent before it ends with what was stored. Its
// transaction, which keeps the database from removing old rows, is open meanwhile.
const claimTimeout = 10 * time.Second

// lockTimeout is how long a statement waits for a row that another transaction has locked.
const lockTimeout = 200 * time.Millisecond

// PoolSettings are the run-time parameters for the connections of a Relay.
func PoolSettings() map[string]string {
	return map[string]string{
		"jit": "off", "lock_timeout": strconv.FormatInt(lockTimeout.Milliseconds(), 10),
		// Where a crash of the server takes checkpoints back, entries are sent again, as after a crash of the relay.
		"synchronous_commit": "off",
	}
}

// consumerPrefix keeps the checkpoints of relays apart from those of other consumers. It
// is stored, so it must not change.
const consumerPrefix = "relay:"

// Consumer is the name of a relay's checkpoints.
func Consumer(name string) string { return consumerPrefix + name }

// Config of a Relay.
type Config struct {
	Pool      *pgxpool.Pool // opened with PoolSettings; at least Connections
	Notifier  *eventlog.Notifier
	Publisher bus.Publisher // closed by Run
	Clock     func() time.Time
	Logger    *slog.Logger
	Metrics   prometheus.Registerer // nil: none

	Name     string   // of the relay: 1 to 64 of A-Z a-z 0-9 _ -; another one begins at position 1
	Form     Form     // default FormPublic
	Envelope Envelope // default EnvelopeNone
	Source   string   // with EnvelopeCloudEvents: the address of this installation

	Sweep time.Duration // at least so much time between two sweeps; default 2 s
}

// Relay sends the log to a broker while it runs. Any number of processes may run one of
// the same name; they share the workspaces.
type Relay struct {
	publisher  bus.Publisher
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
		Pool: cfg.Pool, Notifier: cfg.Notifier, Clock: cfg.Clock, Logger: cfg.Logger, Sweep: cfg.Sweep,
		Workers: workers, Entries: claimEntries, After: eventlog.ReadModels, Public: r.format.form == FormPublic,
		Outside: &eventlog.Outside{Await: r.gate.await, Workspaces: claimWorkspaces},
	}); err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	if r.router, err = message.NewRouter(message.RouterConfig{CloseTimeout: 2 * claimTimeout}, flow.RouterLogger(cfg.Logger)); err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	// KeepError is outside of Recoverer, so that it also gets what was a panic.
	r.router.AddMiddleware(eventlog.KeepError, middleware.Recoverer)
	r.router.AddConsumerHandler("relay", r.consumer, r.subscriber, r.handle)
	return r, nil
}

// Run sends until ctx ends, finishes the messages under way, and returns.
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
