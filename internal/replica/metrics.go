package replica

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// How a wait for the replicas ends, as labels.
const (
	outcomeReplayed = "replayed"
	outcomeTimeout  = "timeout"
)

// Why a replica was passed over, as labels.
const (
	PassedBehind   = "behind"   // it had not replayed what the request demands
	PassedFailed   = "failed"   // it was lost, or ended the statement
	PassedNotThere = "no_proof" // it said that something does not exist, which the primary is asked
)

// Primary is the label of the primary among those of replicas.
const Primary = "primary"

// metrics are those of a Set. Label values are the names of the replicas.
type metrics struct {
	reads   *prometheus.CounterVec
	passed  *prometheus.CounterVec
	awaited *prometheus.CounterVec
}

func newMetrics(register prometheus.Registerer, replicas []Address, states func() []State) (*metrics, error) {
	m := &metrics{
		reads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_replica_reads_total", Help: "Requests by the server whose data was answered with: primary, or a replica's host:port.",
		}, []string{"server"}),
		passed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_replica_passed_over_total", Help: "Requests that went on to another server although the replica is read from: behind (the request demands something newer), failed (it was lost, or ended the statement), no_proof (it said that something does not exist, which only the primary can say).",
		}, []string{"replica", "reason"}),
		awaited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_replica_awaited_total", Help: "Webhooks and answers that waited until all replicas showed what they tell, by how that ended: replayed, or timeout (a replica is lost or lags, and is not read from).",
		}, []string{"ended"}),
	}
	m.reads.WithLabelValues(Primary)
	for _, one := range replicas {
		m.reads.WithLabelValues(one.Name)
		for _, reason := range []string{PassedBehind, PassedFailed, PassedNotThere} {
			m.passed.WithLabelValues(one.Name, reason)
		}
	}
	for _, outcome := range []string{outcomeReplayed, outcomeTimeout} {
		m.awaited.WithLabelValues(outcome)
	}
	if register == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.reads, m.passed, m.awaited, &stateCollector{states}} {
		if err := register.Register(c); err != nil {
			return nil, fmt.Errorf("replica: register metrics: %w", err)
		}
	}
	return m, nil
}

// stateCollector shows the states of the replicas.
type stateCollector struct{ states func() []State }

func (*stateCollector) used() *prometheus.Desc {
	return prometheus.NewDesc("ledgerfeed_replica_used", "1 while the replica is read from, 0 otherwise.", []string{"replica"}, nil)
}

func (*stateCollector) behind() *prometheus.Desc {
	return prometheus.NewDesc("ledgerfeed_replica_behind_seconds", "By how much the replica is behind the primary at most, while it is read from.", []string{"replica"}, nil)
}

// Describe is of prometheus.Collector.
func (c *stateCollector) Describe(to chan<- *prometheus.Desc) {
	to <- c.used()
	to <- c.behind()
}

// Collect is of prometheus.Collector.
func (c *stateCollector) Collect(to chan<- prometheus.Metric) {
	for _, is := range c.states() {
		used := 0.0
		if is.Used {
			used = 1
			to <- prometheus.MustNewConstMetric(c.behind(), prometheus.GaugeValue, is.Behind, is.Name)
		}
		to <- prometheus.MustNewConstMetric(c.used(), prometheus.GaugeValue, used, is.Name)
	}
}
