package ingest

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	messages *prometheus.CounterVec
	lag      prometheus.Gauge
}

// newMetrics registers the metrics unless the registerer is nil.
func newMetrics(register prometheus.Registerer, of *Ingest) (*metrics, error) {
	m := &metrics{
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_ingest_messages_total",
			Help: "Messages that this process ingested, by outcome: appended; skipped, because the log had them; dead, because the log refuses them.",
		}, []string{"outcome"}),
		lag: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ledgerfeed_ingest_lag_messages", Help: "Messages of the source that are not ingested yet."}),
	}
	up := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ledgerfeed_ingest_source_up", Help: "1 while messages of the source can be ingested, 0 otherwise.",
	}, func() float64 {
		if of.Probe(context.Background()) != nil {
			return 0
		}
		return 1
	})
	for _, outcome := range []string{"appended", "skipped", "dead"} {
		m.messages.WithLabelValues(outcome)
	}
	if register == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.messages, m.lag, up} {
		if err := register.Register(c); err != nil {
			return nil, fmt.Errorf("ingest: register metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) count(r *result) {
	m.messages.WithLabelValues("appended").Add(float64(r.appended))
	m.messages.WithLabelValues("skipped").Add(float64(r.skipped))
	m.messages.WithLabelValues("dead").Add(float64(len(r.dead)))
}
