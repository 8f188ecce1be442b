package tracing

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// exporter counts the spans that are sent, and logs when the receiver starts to fail and when it
// recovers. The library itself reports errors only through a process-wide variable.
type exporter struct {
	sdktrace.SpanExporter
	outage       flow.Outage // only the exporting goroutine uses it
	spans        *prometheus.CounterVec
	sent, failed prometheus.Counter
}

func newExporter(to sdktrace.SpanExporter, logger *slog.Logger) *exporter {
	e := &exporter{
		SpanExporter: to,
		outage: flow.Outage{
			Logger: logger, Failing: "cannot send traces (OTEL_EXPORTER_OTLP_ENDPOINT); those of the meantime are lost, nothing else", Working: "traces are sent again",
		},
		spans: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_trace_spans_total", Help: "Spans of traces by result: sent, or failed because the receiver did not take them.",
		}, []string{"result"}),
	}
	e.sent, e.failed = e.spans.WithLabelValues("sent"), e.spans.WithLabelValues("failed")
	return e
}

// ExportSpans implements sdktrace.SpanExporter. It never fails, because its caller could do nothing
// about it.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err != nil {
		e.failed.Add(float64(len(spans)))
	} else {
		e.sent.Add(float64(len(spans)))
	}
	e.outage.LogTransition(ctx, err)
	return nil
}
