package service

import (
	"slices"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Pools are the metrics of a process's pools of connections to the database.
type Pools struct {
	mu   sync.Mutex
	list []namedPool // guarded by mu

	connections, waits, waited, waiting, refused *prometheus.Desc
}

type namedPool struct {
	name   string
	pool   *pgxpool.Pool
	beside bool // its connections are not to the database at DATABASE_URL
}

// NewPools makes the metrics, of no pool yet.
func NewPools() *Pools {
	pool := []string{"pool"}
	return &Pools{
		connections: prometheus.NewDesc("ledgerfeed_pool_connections", "Connections to the database by pool and state: used, idle, and most, which is the size of the pool.", []string{"pool", "state"}, nil),
		waits:       prometheus.NewDesc("ledgerfeed_pool_waits_total", "How often somebody waited for a connection.", pool, nil),
		waiting:     prometheus.NewDesc("ledgerfeed_pool_waiting", "How many wait for a connection.", pool, nil),
		refused:     prometheus.NewDesc("ledgerfeed_pool_refused_total", "New connections that PostgreSQL refused because it had as many as it may have; another one of the pool was waited for.", pool, nil),
		waited:      prometheus.NewDesc("ledgerfeed_pool_wait_seconds_total", "How long they waited.", pool, nil),
	}
}

// Add adds a pool.
func (p *Pools) Add(name string, pool *pgxpool.Pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, namedPool{name, pool, false})
}

// AddBeside adds a pool of connections to standbys, which do not count as those to the
// database.
func (p *Pools) AddBeside(name string, pool *pgxpool.Pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, namedPool{name, pool, true})
}

// all are those that were added so far.
func (p *Pools) all() []namedPool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.list)
}

// PoolUse says how many connections to the database a process has.
type PoolUse struct {
	Used    int    `json:"used"`
	Idle    int    `json:"idle"`
	Most    int    `json:"most"`    // that it may have, single ones beside the pools included
	Waiting int    `json:"waiting"` // requests and tasks that wait for one
	Refused uint64 `json:"refused"` // new ones that PostgreSQL refused, since the start
}

// Connections adds the pools up, without the single ones.
func (p *Pools) Connections() (c PoolUse) {
	for _, one := range p.all() {
		if one.beside {
			continue
		}
		s, w := one.pool.Stat(), pg.WaitsOf(one.pool)
		c.Used += int(s.AcquiredConns())
		c.Idle += int(s.IdleConns())
		c.Waiting += w.Waiting
		c.Refused += w.Refused
	}
	return c
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
	to <- p.waiting
	to <- p.refused
}

// Collect is of prometheus.Collector.
func (p *Pools) Collect(to chan<- prometheus.Metric) {
	for _, one := range p.all() {
		s := one.pool.Stat()
		for state, n := range map[string]int32{"used": s.AcquiredConns(), "idle": s.IdleConns(), "most": s.MaxConns()} {
			to <- prometheus.MustNewConstMetric(p.connections, prometheus.GaugeValue, float64(n), one.name, state)
		}
		w := pg.WaitsOf(one.pool)
		to <- prometheus.MustNewConstMetric(p.waits, prometheus.CounterValue, float64(w.Count), one.name)
		to <- prometheus.MustNewConstMetric(p.waited, prometheus.CounterValue, w.Time.Seconds(), one.name)
		to <- prometheus.MustNewConstMetric(p.waiting, prometheus.GaugeValue, float64(w.Waiting), one.name)
		to <- prometheus.MustNewConstMetric(p.refused, prometheus.CounterValue, float64(w.Refused), one.name)
	}
}
