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
	recorded = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	declined = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
)

func from(traceparent string) context.Context {
	return FromHeader(context.Background(), http.Header{Header: {traceparent}})
}

// TestSampler: callers decide about their own traces, up to a bound; links to recorded
// appends count as well; of the others a ratio is recorded. What is below a span follows it.
func TestSampler(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
	sampling := func(ratio float64) trace.Tracer {
		return newSampler(sdktrace.NewTracerProvider().Tracer(""), ratio, clock.Now)
	}
	below := func(ratio float64) context.Context {
		ctx, _ := sampling(ratio).Start(t.Context(), "")
		return ctx
	}
	records := func(tracer trace.Tracer, ctx context.Context, o ...trace.SpanStartOption) bool {
		ctx, span := tracer.Start(ctx, "", o...)
		defer span.End()
		if told := Traceparent(ctx) != ""; told != span.IsRecording() {
			t.Errorf("others are told of the trace: %v, recorded: %v", told, span.IsRecording())
		}
		return span.IsRecording()
	}
	for name, c := range map[string]struct {
		ratio  float64
		ctx    context.Context
		option trace.SpanStartOption
		want   bool
	}{
		"none, ratio 0":                         {0, t.Context(), Link(""), false},
		"none, ratio 1":                         {1, t.Context(), Link(""), true},
		"recorded by the caller":                {0, from(recorded), Link(""), true},
		"in a wrong form":                       {0, from("00-zz-01"), Link(""), false},
		"linked to a recorded one":              {0, t.Context(), Link(recorded), true},
		"linked to another":                     {0, t.Context(), Link(declined), false},
		"linked to nothing":                     {0, t.Context(), Link("what is this"), false},
		"below a recorded span":                 {0, below(1), Link(""), true},
		"below one that is not recorded":        {1, below(0), Link(""), false},
		"a new one, below a recorded span":      {0, below(1), trace.WithNewRoot(), false},
		"a new one, below one not recorded":     {1, below(0), trace.WithNewRoot(), true},
		"a new one, in the trace of the caller": {0, from(recorded), trace.WithNewRoot(), false},
	} {
		if got := records(sampling(c.ratio), c.ctx, c.option); got != c.want {
			t.Errorf("%s: recorded is %v", name, got)
		}
	}
	if _, span := sampling(1).Start(from(declined), ""); span.IsRecording() {
		t.Error("a trace that its caller does not record is recorded")
	}

	const starts = 20_000
	n := 0
	hundredth := sampling(0.01)
	for range starts {
		if records(hundredth, t.Context()) {
			n++
		}
	}
	if n < starts/200 || n > starts/50 {
		t.Errorf("%d of %d are recorded, want about 1 %%", n, starts)
	}
}

// TestSamplerIsBounded: callers that ask for traces get no more than so many, and nobody
// looks for links that would not be recorded.
func TestSamplerIsBounded(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
	tracer := newSampler(sdktrace.NewTracerProvider().Tracer(""), 0, clock.Now)
	flood := func(ctx context.Context, o ...trace.SpanStartOption) {
		t.Helper()
		recorded := 0
		for range 1000 {
			_, span := tracer.Start(ctx, "", o...)
			if span.IsRecording() {
				recorded++
			}
			span.End()
		}
		if recorded != askedPerSecond {
			t.Errorf("of 1000 that ask %d are recorded within a second, want %d", recorded, askedPerSecond)
		}
	}
	flood(from(recorded))
	if !RecordsLinks(tracer) {
		t.Error("callers have used up what there is for links")
	}
	flood(t.Context(), Link(recorded))
	if RecordsLinks(tracer) {
		t.Error("links are looked for though none can be recorded")
	}
	clock.Advance(time.Second)
	if !RecordsLinks(tracer) {
		t.Error("links are not looked for a second later")
	}
	flood(from(recorded))
	if !RecordsLinks(sdktrace.NewTracerProvider().Tracer("")) {
		t.Error("links are not looked for with the tracer of somebody else")
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
