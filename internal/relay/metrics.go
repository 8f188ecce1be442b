package relay

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The outcomes of sending a message, as its metric's labels.
const (
	outcomeSent   = "sent"
	outcomeFailed = "failed"
)

type metrics struct {
	messages  *prometheus.CounterVec
	duration  prometheus.Histogram
	reachable prometheus.GaugeFunc
}

// newMetrics registers the metrics unless the registerer is nil.
func newMetrics(register prometheus.Registerer, g *gate) (*metrics, error) {
	m := &metrics{
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_relay_messages_total",
			Help: "Messages that this process sent to the broker, by outcome: sent, which the broker has stored, and failed, which are sent again.",
		}, []string{"outcome"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ledgerfeed_relay_publish_seconds", Help: "Time until the broker has stored a message.",
			Buckets:                     []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .05, .25, 1, 5},
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
		}),
		reachable: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ledgerfeed_relay_broker_up", Help: "1 while the relay's broker can be used, 0 otherwise.",
		}, func() float64 {
			if g.err() != nil {
				return 0
			}
			return 1
		}),
	}
	for _, outcome := range []string{outcomeSent, outcomeFailed} {
		m.messages.WithLabelValues(outcome)
	}
	if register == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.messages, m.duration, m.reachable} {
		if err := register.Register(c); err != nil {
			return nil, fmt.Errorf("relay: register metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) observe(took time.Duration, err error) {
	if err != nil {
		m.messages.WithLabelValues(outcomeFailed).Inc()
		return
	}
	m.messages.WithLabelValues(outcomeSent).Inc()
	m.duration.Observe(took.Seconds())
}
