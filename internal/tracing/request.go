package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// StartRequest begins the span of a request to this process, in the sender's trace if the request
// names one. The function's caller ends the span.
func StartRequest(t trace.Tracer, r *http.Request) (context.Context, trace.Span) {
	return t.Start(FromHeader(r.Context(), r.Header), "request", trace.WithSpanKind(trace.SpanKindServer))
}

// KnownMethod returns a standard method, or "other" for any other text, which keeps made-up methods
// out of logs and traces. It returns a constant, because keeping the request's own string would
// keep all of the request's bytes in memory.
func KnownMethod(method string) string {
	for _, known := range []string{
		http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPost, http.MethodPut,
		http.MethodPatch, http.MethodDelete, http.MethodConnect, http.MethodTrace,
	} {
		if method == known {
			return known
		}
	}
	return "other"
}

// EndRequest names a request's span after its method and route pattern (empty for an unknown path)
// and records the status. It does not end the span.
func EndRequest(span trace.Span, method, route string, status int) {
	method = KnownMethod(method)
	name := method
	if route != "" {
		name += " " + route
		span.SetAttributes(attribute.String("http.route", route))
	}
	span.SetName(name)
	span.SetAttributes(attribute.String("http.request.method", method), attribute.Int("http.response.status_code", status))
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, http.StatusText(status))
	}
}
