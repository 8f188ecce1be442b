package cosigning

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	trees    *prometheus.CounterVec
	cosigned *prometheus.GaugeVec
	waiting  *prometheus.GaugeVec
}

func newMetrics() *metrics {
	of := []string{"witness"}
	return &metrics{
		trees: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_witness_trees_total", Help: "Trees that a witness was asked about, by outcome: cosigned, refused (it has another tree, or does not know the log), failed (it was away, slow or answered nonsense).",
		}, []string{"witness", "outcome"}),
		cosigned: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ledgerfeed_witness_cosigned_timestamp_seconds", Help: "When a witness last cosigned a checkpoint for this process; 0: it has not.",
		}, of),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ledgerfeed_witness_waiting_workspaces", Help: "Workspaces whose trees wait for a witness in this process.",
		}, of),
	}
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.trees, m.cosigned, m.waiting}
}
