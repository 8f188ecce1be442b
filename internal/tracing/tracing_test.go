package tracing

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"
	"unsafe"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

const (
	recorded   = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	unrecorded = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
)

func from(traceparent string) context.Context {
	return FromHeader(context.Background(), http.Header{Header: {traceparent}})
}

// TestSampler: callers decide about their own traces, up to a bound; links to recorded
// appends count as well; of the others a ratio is recorded.
func TestSampler(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
	start := func(ratio float64) func(ctx context.Context, o ...trace.SpanStartOption) bool {
		tracer := sdktrace.NewTracerProvider(sdktrace.WithSampler(newSampler(ratio, clock.Now))).Tracer("")
		return func(ctx context.Context, o ...trace.SpanStartOption) bool {
			_, span := tracer.Start(ctx, "", o...)
			defer span.End()
			return span.IsRecording()
		}
	}
	for name, c := range map[string]struct {
		ratio float64
		ctx   context.Context
		link  string
		want  bool
	}{
		"none, ratio 0":              {0, t.Context(), "", false},
		"none, ratio 1":              {1, t.Context(), "", true},
		"recorded by the caller":     {0, from(recorded), "", true},
		"not recorded by the caller": {1, from(unrecorded), "", false},
		"in a wrong form":            {0, from("00-zz-01"), "", false},
		"linked to a recorded one":   {0, t.Context(), recorded, true},
		"linked to another":          {0, t.Context(), unrecorded, false},
		"linked to nothing":          {0, t.Context(), "what is this", false},
	} {
		if got := start(c.ratio)(c.ctx, Link(c.link)); got != c.want {
			t.Errorf("%s: recorded is %v", name, got)
		}
	}

	flood := start(0)
	n := 0
	for range 1000 {
		if flood(from(recorded)) {
			n++
		}
	}
	for range 1000 { // which callers cannot use up
		if flood(t.Context(), Link(recorded)) {
			n++
		}
	}
	clock.Advance(time.Second)
	for range 1000 {
		if flood(from(recorded)) {
			n++
		}
	}
	if n != 3*askedPerSecond {
		t.Errorf("of 3000 that ask %d are recorded within a second, want %d", n, 3*askedPerSecond)
	}
}

// TestContext: what goes to other processes and to the log.
func TestContext(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{"": {}, recorded: {recorded, recorded}, unrecorded: {unrecorded, ""}} {
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
