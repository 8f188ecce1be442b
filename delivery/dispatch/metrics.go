package dispatch

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
)

// metrics are the metrics of a Dispatcher.
type metrics struct {
	attempts *prometheus.CounterVec
	duration prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer, d *Dispatcher) (*metrics, error) {
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_webhook_attempts_total",
			Help: "Attempts to deliver a message to a webhook, by outcome.",
		}, []string{"outcome"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "ledgerfeed_webhook_attempt_seconds",
			Help:    "Duration of attempts, until the response was read or given up.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},

			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
		}),
	}
	for _, o := range attempt.Outcomes() {
		m.attempts.WithLabelValues(string(o))
	}
	if registerer == nil {
		return m, nil
	}
	gauge := func(name, help string, value func(scheduler.Stats) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(d.readStats()) })
	}
	for _, c := range []prometheus.Collector{
		m.attempts, m.duration,
		gauge("ledgerfeed_webhook_lag_seconds", "Age of the oldest event that waits for its first attempt to a webhook that this process holds.",
			func(s scheduler.Stats) float64 { return s.Lag.Seconds() }),
		gauge("ledgerfeed_webhook_under_way", "Attempts under way.",
			func(s scheduler.Stats) float64 { return float64(s.InFlight) }),
		gauge("ledgerfeed_webhooks_held", "Webhooks that this process delivers to.",
			func(s scheduler.Stats) float64 { return float64(s.Webhooks) }),
		gauge("ledgerfeed_webhooks_waiting_for_a_turn", "Webhooks that are throttled because their attempts keep failing expensively.",
			func(s scheduler.Stats) float64 { return float64(s.Throttled) }),
		gauge("ledgerfeed_webhook_cursors_behind", "Webhooks with something to send that this process or no process holds.",
			func(s scheduler.Stats) float64 { return float64(s.Behind) }),
	} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) attempted(ctx context.Context, r *attempt.Result) {
	m.attempts.WithLabelValues(string(r.Outcome)).Inc()
	tracing.Observe(ctx, m.duration, r.Duration.Seconds())
}

// logAttempt writes one line with everything about an attempt.
func (d *Dispatcher) logAttempt(ctx context.Context, w *work) {
	if !d.logger.Enabled(ctx, slog.LevelInfo) {
		return
	}
	a := w.attempt
	d.logger.LogAttrs(ctx, slog.LevelInfo, "webhook attempt",
		slog.String("workspace", a.Key().WorkspaceID),
		slog.String("webhook", a.Key().WebhookID),
		slog.String("host", a.Endpoint.URL.Host),
		slog.String("event", a.EventID),
		slog.String("type", a.EventType),
		slog.Int64("position", a.Position),
		slog.Int("attempt", a.Number()),
		slog.String("outcome", string(w.result.Outcome)),
		slog.Int("status", w.result.Status),
		slog.String("error", w.result.Error),
		slog.Duration("duration", w.result.Duration),
		slog.Duration("age", w.result.At.Sub(a.Published)),
	)
}
