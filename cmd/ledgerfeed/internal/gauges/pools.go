package gauges

import (
	"slices"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// Pools are the metrics of a process's pools of connections to the database.
type Pools struct {
	mu   sync.Mutex
	list []namedPool // guarded by mu

	connections, waits, waited *prometheus.Desc
}

type namedPool struct {
	name string
	pool *pgxpool.Pool
}

// NewPools makes the metrics, of no pool yet.
func NewPools() *Pools {
	pool := []string{"pool"}
	return &Pools{
		connections: prometheus.NewDesc("ledgerfeed_pool_connections", "Connections to the database by pool and state: used, idle, and most, which is the size of the pool.", []string{"pool", "state"}, nil),
		waits:       prometheus.NewDesc("ledgerfeed_pool_waits_total", "How often somebody waited for a connection.", pool, nil),
		waited:      prometheus.NewDesc("ledgerfeed_pool_wait_seconds_total", "How long they waited.", pool, nil),
	}
}

// Add adds a pool.
func (p *Pools) Add(name string, pool *pgxpool.Pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, namedPool{name, pool})
}

// all are those that were added so far.
func (p *Pools) all() []namedPool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.list)
}

// Close closes the pools.
func (p *Pools) Close() {
	for _, one := range p.all() {
		one.pool.Close()
	}
}

// Describe is of prometheus.Collector.
func (p *Pools) Describe(to chan<- *prometheus.Desc) {
	to <- p.connections
	to <- p.waits
	to <- p.waited
}

// Collect is of prometheus.Collector.
func (p *Pools) Collect(to chan<- prometheus.Metric) {
	for _, one := range p.all() {
		s := one.pool.Stat()
		for state, n := range map[string]int32{"used": s.AcquiredConns(), "idle": s.IdleConns(), "most": s.MaxConns()} {
			to <- prometheus.MustNewConstMetric(p.connections, prometheus.GaugeValue, float64(n), one.name, state)
		}
		to <- prometheus.MustNewConstMetric(p.waits, prometheus.CounterValue, float64(s.EmptyAcquireCount()), one.name)
		to <- prometheus.MustNewConstMetric(p.waited, prometheus.CounterValue, s.EmptyAcquireWaitTime().Seconds(), one.name)
	}
}

// Notifications are the metrics of the notifications between processes.
func Notifications(n *eventlog.Notifier) []prometheus.Collector {
	counter := func(name, help string, of func(eventlog.NotifierStats) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "ledgerfeed_notifications_" + name, Help: help}, func() float64 { return float64(of(n.Stats())) })
	}
	return []prometheus.Collector{
		counter("sent_total", "Notifications to other processes, of any number of workspaces each.", func(s eventlog.NotifierStats) uint64 { return s.Sent }),
		counter("received_total", "Notifications from other processes.", func(s eventlog.NotifierStats) uint64 { return s.Received }),
		counter("interrupted_total", "How often receiving them was interrupted; changes are found by sweeps meanwhile.", func(s eventlog.NotifierStats) uint64 { return s.Interrupted }),
	}
}
