package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Config of Start.
type Config struct {
	URL     string            // of an OTLP receiver, such as http://127.0.0.1:4318; without a path, /v1/traces
	Headers map[string]string // of each request to it, such as an Authorization
	Ratio   float64           // of traces that begin here, 0 to 1
	Version string
	Clock   func() time.Time
	Logger  *slog.Logger
}

// Traces makes and sends traces. A nil *Traces is one that is off.
type Traces struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	exporter *exporter
}

const (
	// exportTimeout bounds one request to the receiver with its repetitions, and what is
	// sent at the end.
	exportTimeout = 5 * time.Second

	// maxValue is the most characters of an attribute: statements are longer.
	maxValue = 2048
)

// Start begins to send traces; Close ends it. What the receiver does not take in time
// is dropped: at most 2,048 spans wait. It does not fail when the receiver is away.
func Start(ctx context.Context, cfg Config) (*Traces, error) {
	address, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("the address for traces: %w", err)
	}
	if strings.Trim(address.Path, "/") == "" {
		address.Path = "/v1/traces"
	}
	client, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(address.String()), otlptracehttp.WithHeaders(cfg.Headers),
		otlptracehttp.WithTimeout(exportTimeout), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: exportTimeout / 10, MaxInterval: exportTimeout / 2, MaxElapsedTime: exportTimeout,
		}))
	if err != nil {
		return nil, fmt.Errorf("prepare to send traces: %w", err)
	}
	exporter := newExporter(client, cfg.Logger)
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxValue
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "ledgerfeed"), attribute.String("service.version", cfg.Version),
			attribute.String("service.instance.id", instance()))),
		sdktrace.WithSampler(sdktrace.AlwaysSample()), // newSampler has decided before
		sdktrace.WithRawSpanLimits(limits),
		sdktrace.WithBatcher(exporter, sdktrace.WithExportTimeout(exportTimeout)),
	)
	tracer := provider.Tracer("github.com/ledgerfeed/ledgerfeed", trace.WithInstrumentationVersion(cfg.Version))
	return &Traces{provider: provider, exporter: exporter, tracer: newSampler(tracer, cfg.Ratio, cfg.Clock)}, nil
}

// instance tells one process from another.
func instance() string {
	host, _ := os.Hostname() // without one, the number alone does
	return host + ":" + strconv.Itoa(os.Getpid())
}

// Tracer makes spans; nil when traces are off.
func (t *Traces) Tracer() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.tracer
}

// Collectors are the metrics; none when traces are off.
func (t *Traces) Collectors() []prometheus.Collector {
	if t == nil {
		return nil
	}
	return []prometheus.Collector{t.exporter.spans}
}

// Close sends what is left, for as long as ctx and the timeout of a request let it.
func (t *Traces) Close(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), exportTimeout)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // the exporter has logged why
}
