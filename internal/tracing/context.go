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

// Header is the header that continues a trace in another process (W3C Trace Context), in the
// canonical form of net/http.
const Header = "Traceparent"

// FromEnvironment returns a context with the trace in the variable TRACEPARENT, which a program
// sets for programs that it starts.
func FromEnvironment(ctx context.Context) context.Context {
	return FromHeader(ctx, http.Header{Header: {os.Getenv(strings.ToUpper(traceparent))}})
}

const traceparent = "traceparent"

// FromHeader returns a context with the trace in a request's header, if there is one. It ignores
// tracestate, which can be large and is not needed here.
func FromHeader(ctx context.Context, h http.Header) context.Context {
	if len(h[Header]) != 1 {
		return ctx
	}
	return Within(ctx, h[Header][0])
}

// Traceparent returns the current span in the form of the header; empty: there is none.
func Traceparent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[traceparent]
}

// Recorded returns Traceparent if the current span is recorded; otherwise empty.
func Recorded(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	return Traceparent(ctx)
}

// Within returns a context below the span in text, which has the form of the header. If text has
// another form, it returns ctx.
func Within(ctx context.Context, text string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceparent: text})
}

// End finishes the span and records err as its status.
func End(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// Observe observes a value. If the current trace is recorded, it becomes the value's exemplar.
func Observe(ctx context.Context, o prometheus.Observer, value float64) {
	current := trace.SpanContextFromContext(ctx)
	if with, ok := o.(prometheus.ExemplarObserver); ok && current.IsSampled() {
		with.ObserveWithExemplar(value, prometheus.Labels{"trace_id": current.TraceID().String()})
		return
	}
	o.Observe(value)
}

// LogHandler adds trace_id and span_id to lines that are logged in recorded traces.
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
