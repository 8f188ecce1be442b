package eventtree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Consumer is the name of the checkpoints of a Builder. It is stored, so it must not
// change.
const Consumer = "event_trees"

// claimEntries is the maximum number of entries in a claim. An entry costs a hash or two, so a
// claim may be as large as one read allows, and one claim at a time is enough.
const claimEntries = 8000

// Connections is how many connections of a pool a Builder needs: one for the claim, and one for
// writes alongside it.
const Connections = 2

// gather is how long events are gathered before they are added to the trees, so that the tiles at
// the edge are written about once a second, and a tree checkpoint is less than a second behind the
// visible position.
const gather = 900 * time.Millisecond

// handleTimeout ends the handling of a claim when the database hangs.
const handleTimeout = time.Minute

// BuilderConfig configures a Builder.
type BuilderConfig struct {
	Pool     pg.DB // with projections.PoolSettings; without AuxPool, at least Connections connections
	AuxPool  pg.DB // see eventlog.SubscriberConfig
	Notifier *eventlog.Notifier
	Clock    func() time.Time
	Logger   *slog.Logger
	Metrics  prometheus.Registerer // nil: none

	// Grown is called before the commit with each workspace whose trees grow, and the position that
	// they reach. It must return at once. nil: nothing is called.
	Grown func(workspaceID string, position int64)

	Entries int           // maximum entries per claim; default 8000
	Gather  time.Duration // see eventlog.SubscriberConfig; default 900 ms
	Sweep   time.Duration // minimum time between two sweeps; default 2 s

	Sleep func(ctx context.Context, d time.Duration) bool // see eventlog.SubscriberConfig
}

// Builder adds events that become visible to the trees of all workspaces. It is a Watermill Router
// with a consumer of the log. Any number of processes may run one on the same database.
type Builder struct {
	router     *message.Router
	subscriber *eventlog.Subscriber
	leaves     prometheus.Counter
	grown      func(workspaceID string, position int64)
}

// NewBuilder makes a Builder.
func NewBuilder(cfg BuilderConfig) (*Builder, error) {
	b := &Builder{leaves: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ledgerfeed_tree_events_total",
		Help: "Events added to the trees of their workspaces, each once although most are in both.",
	})}
	if b.grown = cfg.Grown; b.grown == nil {
		b.grown = func(string, int64) {}
	}
	if cfg.Pool == nil {
		return nil, errors.New("eventtree: BuilderConfig needs a Pool")
	}
	var err error
	if b.subscriber, err = eventlog.NewSubscriber(eventlog.SubscriberConfig{
		Pool: cfg.Pool, AuxPool: cfg.AuxPool, Notifier: cfg.Notifier, Clock: cfg.Clock, Logger: cfg.Logger, Sweep: cfg.Sweep,
		After: eventlog.ReadModels, Public: true, NoData: true, Gather: cmp.Or(cfg.Gather, gather), Sleep: cfg.Sleep,
		Workers: 1, Entries: cmp.Or(cfg.Entries, claimEntries),
	}); err != nil {
		return nil, fmt.Errorf("event trees: %w", err)
	}
	if b.router, err = message.NewRouter(message.RouterConfig{CloseTimeout: handleTimeout}, flow.RouterLogger(cfg.Logger)); err != nil {
		return nil, fmt.Errorf("event trees: %w", err)
	}
	if cfg.Metrics != nil {
		if err := cfg.Metrics.Register(b.leaves); err != nil {
			return nil, err
		}
	}
	// KeepError is outside Recoverer, so that it also gets the errors of panics.
	b.router.AddMiddleware(eventlog.KeepError, middleware.Recoverer)
	b.router.AddConsumerHandler(Consumer, Consumer, b.subscriber, b.handle)
	return b, nil
}

// Run builds until ctx ends, finishes the claims in progress, and returns.
func (b *Builder) Run(ctx context.Context) error {
	if err := b.router.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("event trees: %w", err)
	}
	return nil
}

// handle is the handler of the Watermill Router. It works in the transaction of the
// message's claim, which the subscriber commits.
func (b *Builder) handle(msg *message.Message) error {
	claim, err := eventlog.ClaimOf(msg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(msg.Context(), handleTimeout)
	defer cancel()
	ids := make([]string, len(claim.Segments))
	for i := range claim.Segments {
		ids[i] = claim.Segments[i].WorkspaceID
	}
	trees, err := load(ctx, claim.Tx, ids)
	if err != nil {
		return err
	}
	changed := make([]*growing, 0, 2*len(ids))
	leaves := 0
	for i := range claim.Segments {
		s := &claim.Segments[i]
		n, err := grow(trees[s.WorkspaceID], s)
		if err != nil {
			return err
		}
		leaves += n
		changed = append(changed, trees[s.WorkspaceID]...)
	}
	if err := save(ctx, claim.Tx, changed); err != nil {
		return err
	}
	for _, g := range changed {
		b.grown(g.workspaceID, g.position)
	}
	b.leaves.Add(float64(leaves)) // before the commit: if that fails, the work is done and counted twice
	return nil
}

// grow adds the events of a segment to the trees of its workspace.
func grow(trees []*growing, s *eventlog.Segment) (leaves int, err error) {
	if len(s.Entries) == 0 {
		return 0, nil
	}
	for _, g := range trees {
		// A tree that is ahead of the consumer waits for the other tree, which is being built
		// again.
		if g.position < s.After {
			return 0, fmt.Errorf("the tree %s of %s has the events up to position %d, and its consumer those up to %d: what is kept of it was changed or lost",
				g.sight, g.workspaceID, g.position, s.After)
		}
	}
	for i := range s.Entries {
		if s.Public[i] == "" {
			continue
		}
		leaves++
		leaf := tlog.RecordHash([]byte(s.Public[i]))
		for _, g := range trees {
			if at := s.Entries[i].Position; at > g.position && g.sight.Has(s.Pay[i]) {
				g.add(leaf, at)
			}
		}
	}
	last := &s.Entries[len(s.Entries)-1]
	for _, g := range trees {
		if last.Position > g.position {
			g.position, g.chain = last.Position, last.Chain[:]
		}
	}
	return leaves, nil
}
