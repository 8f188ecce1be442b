package tracing

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"unsafe"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

const (
	recorded = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	declined = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
)

func from(traceparent string) context.Context {
	return FromHeader(context.Background(), http.Header{Header: {traceparent}})
}

// TestConfigured: by the variables of OpenTelemetry alone.
func TestConfigured(t *testing.T) {
	t.Parallel()
	for environ, want := range map[string]bool{
		"": false, "OTEL_SERVICE_NAME=x": false, "OTEL_EXPORTER_OTLP_ENDPOINT=": false,
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318":                             true,
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:4318/v1/traces":            true,
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 OTEL_SDK_DISABLED=TRUE":      false,
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 OTEL_TRACES_EXPORTER=none":   false,
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 OTEL_TRACES_SAMPLER=no_such": true,
	} {
		if got := Configured(strings.Fields(environ)); got != want {
			t.Errorf("%q: %v", environ, got)
		}
	}
}

// TestContext: what goes to other processes and to the log.
func TestContext(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{"": {}, recorded: {recorded, recorded}, declined: {declined, ""}} {
		ctx := from(text)
		if got := [2]string{Traceparent(ctx), Recorded(ctx)}; got != want {
			t.Errorf("%q is passed on as %q", text, got)
		}
		var log bytes.Buffer
		logger := slog.New(LogHandler(slog.NewTextHandler(&log, nil))).With("a", 1)
		logger.InfoContext(ctx, "m")
		if named := strings.Contains(log.String(), "trace_id=4bf92f3577b34da6a3ce929d0e0e4736"); named != (want[1] != "") {
			t.Errorf("%q: logged %s", text, log.String())
		}
	}
}

// TestKnownMethod: no text of a caller is kept.
func TestKnownMethod(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]string{"GET": "GET", "get": "other", strings.Repeat("X", 30_000): "other"} {
		if got := KnownMethod(method); got != want {
			t.Errorf("%q", got)
		}
	}
	line := "GET /v1/" + strings.Repeat("x", 60_000)
	if got := KnownMethod(line[:3]); unsafe.StringData(got) == unsafe.StringData(line) {
		t.Error("the method keeps the line of the request")
	}
}

// TestRequestSpan: requests are named by their routes, and those that fail are errors.
func TestRequestSpan(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("")
	for _, route := range []string{"/v1/invoices/{id}", ""} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://host/v1/invoices/in_1?q=secret", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(Header, recorded)
		r.Header.Set("Tracestate", "a=b")
		_, span := StartRequest(tracer, r)
		if state := span.SpanContext().TraceState().String(); state != "" {
			t.Errorf("the caller's tracestate %q is kept", state)
		}
		EndRequest(span, r.Method, route, http.StatusServiceUnavailable)
		span.End()
	}
	ended := spans.Ended()
	if len(ended) != 2 || ended[0].Name() != "GET /v1/invoices/{id}" || ended[1].Name() != "GET" || ended[0].Status().Description != "Service Unavailable" {
		t.Errorf("%+v", ended)
	}
}
