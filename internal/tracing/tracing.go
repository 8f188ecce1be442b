package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// Config configures Start.
type Config struct {
	Version  string
	Logger   *slog.Logger
	Exporter sdktrace.SpanExporter // nil: to the OTLP receiver that the environment names
	Sampler  sdktrace.Sampler      // nil: the environment's; if it names none, 1 % of the traces that begin here
}

// Configured reports whether environ names a receiver of traces with OpenTelemetry's own variables.
func Configured(environ []string) bool {
	values := map[string]string{}
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		values[name] = value
	}
	return values["OTEL_EXPORTER_OTLP_ENDPOINT"]+values["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] != "" &&
		!strings.EqualFold(values["OTEL_SDK_DISABLED"], "true") && values["OTEL_TRACES_EXPORTER"] != "none"
}

// Traces makes and sends traces. If a *Traces is nil, tracing is off.
type Traces struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	exporter *exporter
}

const (
	// exportTimeout bounds one request to the receiver with its retries, and the last export in
	// Close.
	exportTimeout = 5 * time.Second

	// defaultRatio is the share of the traces begun here that are recorded if the environment names
	// no sampler. OpenTelemetry's own default is all of them, but each recorded append writes a
	// row.
	defaultRatio = 0.01

	// maxValue is the maximum length of an attribute, in characters, because statements can be
	// longer.
	maxValue = 2048
)

// Start begins to send traces; Close ends it. At most 2,048 spans wait to be sent, and others are
// dropped. Start does not fail if the receiver is unavailable.
func Start(ctx context.Context, cfg Config) (*Traces, error) {
	if cfg.Exporter == nil {
		client, err := otlptracehttp.New(ctx, otlptracehttp.WithTimeout(exportTimeout), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: exportTimeout / 10, MaxInterval: exportTimeout / 2, MaxElapsedTime: exportTimeout,
		}))
		if err != nil {
			return nil, fmt.Errorf("prepare to send traces: %w", err)
		}
		cfg.Exporter = client
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "ledgerfeed"), attribute.String("service.version", cfg.Version),
		attribute.String("service.instance.id", instance())), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	exporter := newExporter(cfg.Exporter, cfg.Logger)
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxValue
	options := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(about),
		sdktrace.WithRawSpanLimits(limits),
		sdktrace.WithBatcher(exporter, sdktrace.WithExportTimeout(exportTimeout)),
	}
	switch {
	case cfg.Sampler != nil:
		options = append(options, sdktrace.WithSampler(cfg.Sampler))
	case os.Getenv("OTEL_TRACES_SAMPLER") == "":
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(defaultRatio))))
	}
	provider := sdktrace.NewTracerProvider(options...)
	tracer := provider.Tracer("github.com/ledgerfeed/ledgerfeed", trace.WithInstrumentationVersion(cfg.Version))
	return &Traces{provider: provider, exporter: exporter, tracer: tracer}, nil
}

// instance returns a name that tells this process from others.
func instance() string {
	host, _ := os.Hostname() // without one, the process id is enough
	return host + ":" + strconv.Itoa(os.Getpid())
}

// Tracer returns what makes spans; nil if tracing is off.
func (t *Traces) Tracer() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.tracer
}

// Collectors returns the metrics; none if tracing is off.
func (t *Traces) Collectors() []prometheus.Collector {
	if t == nil {
		return nil
	}
	return []prometheus.Collector{t.exporter.spans}
}

// Close sends the remaining spans, for at most exportTimeout, even if ctx has ended.
func (t *Traces) Close(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), exportTimeout)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // the exporter has logged why
}

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

// Statements returns a tracer that makes a child span for each statement; nil if tracing is off. It
// does not record the statements' arguments.
func (t *Traces) Statements() pgx.QueryTracer {
	if t == nil {
		return nil
	}
	return otelpgx.NewTracer(otelpgx.WithTracerProvider(t.provider), otelpgx.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelpgx.WithDisableConnectionDetailsInAttributes(), otelpgx.WithSpanNameCtxFunc(operation))
}

// operation returns the first word of a statement, such as SELECT.
func operation(ctx context.Context, statement string) string {
	return otelpgx.SQLOperationName(ctx, strings.TrimLeft(statement, "( \n\t"))
}
