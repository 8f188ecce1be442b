package replica

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// Config of a Set. Fields without a default are required.
type Config struct {
	Primary   *pgxpool.Pool // asked for the end of its write-ahead log: one short statement at a time for each replica
	Addresses []Address
	Logger    *slog.Logger

	// MaxLag is the most by which a replica that is read from may be behind. All processes
	// on a database must have the same. Default: DefaultMaxLag.
	MaxLag time.Duration

	// Metrics registers the collectors; nil: they are not registered.
	Metrics prometheus.Registerer
}

// DefaultMaxLag is four times as long as a replica is at most not looked at, and more.
const DefaultMaxLag = 2 * time.Second

// LeastMaxLag is the shortest that leaves a replica time to be looked at twice.
const LeastMaxLag = 500 * time.Millisecond

// Set is some replicas of one database. Its methods may be called by any number of
// goroutines; those of nil are those of a Set without replicas.
type Set struct {
	cfg     Config
	began   time.Time // not of an injected clock: it measures the servers
	servers []*Server
	metrics *metrics
	turn    atomic.Uint64

	mu     sync.Mutex
	change chan struct{} // closed when a replica was looked at
}

// New makes a Set. Nothing is read from replicas unless Run runs.
func New(cfg Config) (*Set, error) {
	if cfg.Primary == nil || cfg.Logger == nil || len(cfg.Addresses) == 0 || cfg.MaxLag != 0 && cfg.MaxLag < LeastMaxLag {
		return nil, errors.New("replica: Config needs a Primary, a Logger and Addresses, and a MaxLag of half a second or more")
	}
	if cfg.MaxLag == 0 {
		cfg.MaxLag = DefaultMaxLag
	}
	s := &Set{cfg: cfg, began: time.Now().Add(-time.Nanosecond), change: make(chan struct{})}
	for _, a := range cfg.Addresses {
		one := &Server{Address: a, set: s, asked: make(chan struct{}, 1), reason: errUnknown}
		one.alive, one.lost = context.WithCancel(context.Background())
		one.lost()
		s.servers = append(s.servers, one)
	}
	var err error
	s.metrics, err = newMetrics(cfg.Metrics, s)
	return s, err
}

// Run follows the replicas until ctx ends.
func (s *Set) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, one := range s.servers {
		all.Go(func() { one.follow(ctx) })
	}
	all.Wait()
	return nil
}

// Servers are all replicas, in the order of Config.Addresses.
func (s *Set) Servers() []*Server {
	if s == nil {
		return nil
	}
	return s.servers
}

// MaxLag is Config.MaxLag.
func (s *Set) MaxLag() time.Duration {
	if s == nil {
		return 0
	}
	return s.cfg.MaxLag
}

// Turn spreads reads: each call begins one further.
func (s *Set) Turn() int { return int(s.turn.Add(1) % uint64(len(s.servers))) }

// since is the time since the Set was made.
func (s *Set) since() time.Duration { return time.Since(s.began) }

// changed tells those who wait that a replica was looked at.
func (s *Set) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.change)
	s.change = make(chan struct{})
}

func (s *Set) changes() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.change
}

// Await waits until whoever is told of what the primary, or a replica, has shown at a moment
// can read it wherever somebody reads: until every replica is current as of that moment, and
// until MaxLag after it at most. It returns earlier, with its cause, when ctx ends. The moment
// is one of time.Now.
func (s *Set) Await(ctx context.Context, since time.Time) error {
	if s == nil {
		return nil
	}
	asked := since.Sub(s.began)
	limit := time.NewTimer(time.Until(since.Add(s.cfg.MaxLag)))
	defer limit.Stop()
	for {
		change := s.changes()
		if s.allCurrent(asked) {
			s.metrics.awaited.WithLabelValues(outcomeReplayed).Inc()
			return nil
		}
		select {
		case <-change:
		case <-limit.C:
			s.metrics.awaited.WithLabelValues(outcomeTimeout).Inc()
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// allCurrent reports whether all replicas are current as of a moment, and has those looked
// at that are not.
func (s *Set) allCurrent(asked time.Duration) bool {
	all := true
	for _, one := range s.servers {
		if time.Duration(one.current.Load()) >= asked {
			continue
		}
		all = false
		if time.Duration(one.marked.Load()) >= asked {
			continue // it is followed until it has replayed that
		}
		select {
		case one.asked <- struct{}{}:
		default:
		}
	}
	return all
}

// State is how a replica is.
type State struct {
	Name    string  `json:"replica"` // host:port
	Used    bool    `json:"used"`
	Behind  float64 `json:"behind_seconds"` // at most; meaningless where it is not used
	Problem string  `json:"problem,omitempty"`
}

// States are those of all replicas.
func (s *Set) States() []State {
	var list []State
	for _, one := range s.Servers() {
		list = append(list, one.state())
	}
	return list
}

func (s *Server) state() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := State{Name: s.Name, Used: s.Usable()}
	switch {
	case is.Used:
		is.Behind = (s.set.since() - time.Duration(s.current.Load())).Seconds()
	case s.reason != nil:
		is.Problem = describe(s.reason)
	default:
		is.Problem = describe(&BehindError{s.set.cfg.MaxLag})
	}
	return is
}

// describe is an error without addresses and accounts.
func describe(err error) string {
	if connect, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		if answered, ok := errors.AsType[*pgconn.PgError](connect); ok {
			return "it refuses connections: " + answered.Message
		}
		return "it cannot be reached"
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "it does not answer"
	}
	return err.Error()
}
