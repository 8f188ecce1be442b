package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
)

// call is by which method entries are appended.
type call string

const (
	callAppend   call = "append"
	callAppendTx call = "append_tx"
	callRestore  call = "restore"
)

// How an append ends, for its metrics.
const (
	ended   = "appended" // all of its entries are in the log, also those that were before
	refused = "refused"  // the log refuses an entry
	failed  = "failed"   // anything else: held, disconnected, given up
)

// metrics of a Log.
type metrics struct {
	duration *prometheus.HistogramVec
	entries  *prometheus.CounterVec
}

// newMetrics registers the metrics unless the registerer is nil.
func newMetrics(register prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ledgerfeed_append_seconds",
			Help: "Duration of appends by this process, by call (append; append_tx, without the commit, which is its caller's; restore) and outcome (appended, refused, failed).",

			Buckets:                     []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
		}, []string{"call", "outcome"}),
		entries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_append_entries_total",
			Help: "Entries that this process appended, by call, and whether they are new or were skipped because the log had them. Those of append_tx are there if their transaction commits.",
		}, []string{"call", "entry"}),
	}
	for _, c := range []call{callAppend, callAppendTx, callRestore} {
		for _, outcome := range []string{ended, refused, failed} {
			m.duration.WithLabelValues(string(c), outcome)
		}
		m.entries.WithLabelValues(string(c), "new")
		m.entries.WithLabelValues(string(c), "skipped")
	}
	if register == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.duration, m.entries} {
		if err := register.Register(c); err != nil {
			return nil, fmt.Errorf("eventlog: register metrics: %w", err)
		}
	}
	return m, nil
}

// observe counts an append that began at a moment, with its trace as the exemplar.
func (m *metrics) observe(ctx context.Context, c call, began time.Time, receipts []Receipt, err error) {
	outcome := ended
	if _, ok := errors.AsType[*RefusedError](err); ok {
		outcome = refused
	} else if err != nil {
		outcome = failed
	}
	tracing.Observe(ctx, m.duration.WithLabelValues(string(c), outcome), time.Since(began).Seconds())
	if err != nil {
		return
	}
	var skipped int
	for i := range receipts {
		if receipts[i].Skipped {
			skipped++
		}
	}
	m.entries.WithLabelValues(string(c), "new").Add(float64(len(receipts) - skipped))
	m.entries.WithLabelValues(string(c), "skipped").Add(float64(skipped))
}
