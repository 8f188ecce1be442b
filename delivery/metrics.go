package delivery

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of an Engine.
type metrics struct {
	attempts *prometheus.CounterVec
	duration prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer, e *Engine) (*metrics, error) {
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_webhook_attempts_total",
			Help: "Attempts to deliver a message to a webhook, by outcome.",
		}, []string{"outcome"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "ledgerfeed_webhook_attempt_seconds",
			Help:    "How long attempts took, until the answer was read or given up on.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
	}
	for _, o := range Outcomes() {
		m.attempts.WithLabelValues(string(o))
	}
	if registerer == nil {
		return m, nil
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	for _, c := range []prometheus.Collector{
		m.attempts, m.duration,
		gauge("ledgerfeed_webhook_lag_seconds", "Age of the oldest event that waits for its first attempt to a webhook this process holds.",
			func() float64 { return e.desk.lag().Seconds() }),
		gauge("ledgerfeed_webhook_under_way", "Attempts being made now.",
			func() float64 { return float64(e.desk.load().underWay) }),
		gauge("ledgerfeed_webhooks_held", "Webhooks that this process delivers.",
			func() float64 { return float64(e.desk.load().lanes) }),
		gauge("ledgerfeed_webhooks_waiting_for_a_turn", "Webhooks whose receivers hang or are away, and that wait for their turn to be tried.",
			func() float64 { return float64(e.desk.load().turns) }),
		gauge("ledgerfeed_webhook_cursors_behind", "Webhooks with something to send that are held by this process, or by none.",
			func() float64 { return float64(e.desk.behind()) + float64(e.behind.Load()) }),
	} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) attempt(j *job) {
	m.attempts.WithLabelValues(string(j.attempt.Outcome)).Inc()
	m.duration.Observe(j.attempt.Duration.Seconds())
}

// lag is how old the oldest event is that was not started.
func (d *desk) lag() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	var oldest time.Time
	for _, l := range d.lanes {
		if t := l.oldest(); !t.IsZero() && (oldest.IsZero() || t.Before(oldest)) {
			oldest = t
		}
	}
	if oldest.IsZero() {
		return 0
	}
	return max(d.clock().Sub(oldest), 0)
}

type deskLoad struct{ lanes, underWay, turns int }

func (d *desk) load() deskLoad {
	d.mu.Lock()
	defer d.mu.Unlock()
	return deskLoad{lanes: len(d.lanes), underWay: d.underWay, turns: len(d.turns)}
}

// behind counts the webhooks that have something to send.
func (d *desk) behind() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.lanes {
		if l.waiting() > 0 || l.scanned < l.visible {
			n++
		}
	}
	return n
}

// log is the one wide line of an attempt.
func (e *Engine) log(ctx context.Context, j *job) {
	if !e.logger.Enabled(ctx, slog.LevelInfo) {
		return
	}
	e.logger.LogAttrs(ctx, slog.LevelInfo, "webhook attempt",
		slog.String("workspace", j.lane.key.workspaceID),
		slog.String("webhook", j.lane.key.webhookID),
		slog.String("host", j.hook.url.Host),
		slog.String("event", j.eventID),
		slog.String("type", j.eventType),
		slog.Int64("position", j.position),
		slog.Int("attempt", j.number()),
		slog.String("outcome", string(j.attempt.Outcome)),
		slog.Int("status", j.attempt.Status),
		slog.String("error", j.attempt.Error),
		slog.Duration("duration", j.attempt.Duration),
		slog.Duration("age", j.attempt.At.Sub(j.published)),
	)
}
