package replica

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

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
		s.servers = append(s.servers, newServer(a, &s.cfg, s.began, s.changed))
	}
	var err error
	if s.metrics, err = newMetrics(cfg.Metrics, cfg.Addresses, s.States); err != nil {
		return nil, err
	}
	for _, one := range s.servers {
		one.passed = s.metrics.passed.MustCurryWith(prometheus.Labels{"replica": one.Name})
	}
	return s, nil
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

// changed tells callers that wait that a replica was looked at.
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

// Await waits until a client that is told of what the primary, or a replica, has shown at a
// moment can read it from any server: until every replica is current as of that moment, and
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

// Answered counts a request that was answered with data of a server; nil: the primary.
func (s *Set) Answered(by *Server) {
	name := Primary
	if by != nil {
		name = by.Name
	}
	s.metrics.reads.WithLabelValues(name).Inc()
}

// States are those of all replicas.
func (s *Set) States() []State {
	var list []State
	for _, one := range s.Servers() {
		list = append(list, one.state())
	}
	return list
}
