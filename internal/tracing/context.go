package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Header is the header by which a trace goes on in another process, in the canonical
// form of net/http (W3C Trace Context).
const Header = "Traceparent"

// FromEnvironment returns a context with the trace of the variable TRACEPARENT, by which a
// program tells one that it starts.
func FromEnvironment(ctx context.Context) context.Context {
	return FromHeader(ctx, http.Header{Header: {os.Getenv(strings.ToUpper(traceparent))}})
}

const traceparent = "traceparent"

// FromHeader returns a context with the trace of a request's header, if it has one. What
// others keep in tracestate is not read: it can be large, and nothing here needs it.
func FromHeader(ctx context.Context, h http.Header) context.Context {
	if len(h[Header]) != 1 {
		return ctx
	}
	return Within(ctx, h[Header][0])
}

// Traceparent writes the current span in the form of the header; empty: there is none.
func Traceparent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[traceparent]
}

// Recorded is Traceparent for a span that is recorded; empty otherwise.
func Recorded(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	return Traceparent(ctx)
}

// Within returns a context below a span in the form of the header; ctx itself for a text in
// another form.
func Within(ctx context.Context, text string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceparent: text})
}

// End ends a span with the result of what it is of.
func End(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// Observe observes a value, with the trace as its exemplar if there is one that is
// recorded.
func Observe(ctx context.Context, o prometheus.Observer, value float64) {
	current := trace.SpanContextFromContext(ctx)
	if with, ok := o.(prometheus.ExemplarObserver); ok && current.IsSampled() {
		with.ObserveWithExemplar(value, prometheus.Labels{"trace_id": current.TraceID().String()})
		return
	}
	o.Observe(value)
}

// LogHandler adds trace_id and span_id to the lines that are logged in recorded traces.
func LogHandler(next slog.Handler) slog.Handler { return logHandler{next} }

type logHandler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if current := trace.SpanContextFromContext(ctx); current.IsSampled() {
		r.AddAttrs(slog.String("trace_id", current.TraceID().String()), slog.String("span_id", current.SpanID().String()))
	}
	if err := h.Handler.Handle(ctx, r); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
