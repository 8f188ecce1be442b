package service

import (
	"cmp"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Pools are the metrics of a process's connections to the database and to standbys.
type Pools struct {
	mu     sync.Mutex
	list   []namedPool // guarded by mu
	shares []*pg.Share // of the database's; guarded by mu

	connections, waits, waited, waiting, refused *prometheus.Desc
}

type namedPool struct {
	name string // empty: to the database at DATABASE_URL
	pool *pg.Pool
}

// NewPools makes the metrics, of no pool yet.
func NewPools() *Pools {
	pool := []string{"pool"}
	return &Pools{
		connections: prometheus.NewDesc("ledgerfeed_pool_connections", "Connections to the database by the share of the pool that uses them and by state: used, and most, which is how many it may use. The pool all has those of all shares, also idle ones.", []string{"pool", "state"}, nil),
		waits:       prometheus.NewDesc("ledgerfeed_pool_waits_total", "How often somebody waited for a connection.", pool, nil),
		waiting:     prometheus.NewDesc("ledgerfeed_pool_waiting", "How many wait for a connection.", pool, nil),
		refused:     prometheus.NewDesc("ledgerfeed_pool_refused_total", "New connections that PostgreSQL refused because it had as many as it may have; another one was waited for.", pool, nil),
		waited:      prometheus.NewDesc("ledgerfeed_pool_wait_seconds_total", "How long they waited.", pool, nil),
	}
}

// Add adds a pool: the pool of the database, without a name, or a pool of connections to standbys.
func (p *Pools) Add(name string, pool *pg.Pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, namedPool{name, pool})
}

// AddShare adds a share of the database's pool.
func (p *Pools) AddShare(s *pg.Share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shares = append(p.shares, s)
}

// all returns what was added so far.
func (p *Pools) all() ([]namedPool, []*pg.Share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.list), slices.Clone(p.shares)
}

// PoolUse says how many connections to the database a process has.
type PoolUse struct {
	Used    int    `json:"used"`
	Idle    int    `json:"idle"`
	Most    int    `json:"most"`    // that it may have, single ones beside the pools included
	Waiting int    `json:"waiting"` // requests and tasks that wait for one
	Refused uint64 `json:"refused"` // new ones that PostgreSQL refused, since the start
}

func (p *PoolUse) add(other PoolUse) {
	p.Used += other.Used
	p.Idle += other.Idle
	p.Most += other.Most
	p.Waiting += other.Waiting
	p.Refused += other.Refused
}

// Connections are those to the database, without the single ones.
func (p *Pools) Connections() (c PoolUse) {
	pools, shares := p.all()
	for _, one := range pools {
		if one.name == "" {
			stat := one.pool.Stat()
			c.Used, c.Idle = int(stat.AcquiredConns()), int(stat.IdleConns())
		}
	}
	for _, s := range shares {
		use := s.Use()
		c.Waiting += use.Waiting
		c.Refused += use.Refused
	}
	return c
}

// Close closes the pools.
func (p *Pools) Close() {
	pools, _ := p.all()
	for _, one := range pools {
		one.pool.Close()
	}
}

// Describe is of prometheus.Collector.
func (p *Pools) Describe(to chan<- *prometheus.Desc) {
	to <- p.connections
	to <- p.waits
	to <- p.waited
	to <- p.waiting
	to <- p.refused
}

// Collect is of prometheus.Collector.
func (p *Pools) Collect(to chan<- prometheus.Metric) {
	pools, shares := p.all()
	gauge := func(n int32, share, state string) {
		to <- prometheus.MustNewConstMetric(p.connections, prometheus.GaugeValue, float64(n), share, state)
	}
	for _, one := range pools {
		s := one.pool.Stat()
		name := cmp.Or(one.name, allShares)
		gauge(s.AcquiredConns(), name, "used")
		gauge(s.IdleConns(), name, "idle")
		gauge(int32(one.pool.Use().Most), name, "most") // pgx may have more, for those that are being closed
		if one.name != "" {
			p.collectWaits(to, name, one.pool.Use().Waits)
		}
	}
	for _, s := range shares {
		use := s.Use()
		gauge(int32(use.Used), use.Name, "used")
		gauge(int32(use.Most), use.Name, "most")
		p.collectWaits(to, use.Name, use.Waits)
	}
}

// allShares is the label of the connections of all shares.
const allShares = "all"

func (p *Pools) collectWaits(to chan<- prometheus.Metric, share string, w pg.Waits) {
	to <- prometheus.MustNewConstMetric(p.waits, prometheus.CounterValue, float64(w.Count), share)
	to <- prometheus.MustNewConstMetric(p.waited, prometheus.CounterValue, w.Time.Seconds(), share)
	to <- prometheus.MustNewConstMetric(p.waiting, prometheus.GaugeValue, float64(w.Waiting), share)
	to <- prometheus.MustNewConstMetric(p.refused, prometheus.CounterValue, float64(w.Refused), share)
}
