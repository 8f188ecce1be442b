package tracing

import (
	"context"
	"fmt"
	"log/slog"
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
	Version  string
	Logger   *slog.Logger
	Exporter sdktrace.SpanExporter // nil: to the OTLP receiver that the environment names
	Sampler  sdktrace.Sampler      // nil: the environment's; if it names none, 1 % of the traces that begin here
}

// Configured reports whether an environment names a receiver of traces, by OpenTelemetry's own
// variables.
func Configured(environ []string) bool {
	values := map[string]string{}
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		values[name] = value
	}
	return values["OTEL_EXPORTER_OTLP_ENDPOINT"]+values["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] != "" &&
		!strings.EqualFold(values["OTEL_SDK_DISABLED"], "true") && values["OTEL_TRACES_EXPORTER"] != "none"
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

	// defaultRatio is the part of the traces that begin here and are recorded, where the
	// environment names no sampler. OpenTelemetry's own default is all of them, and an append
	// that is recorded writes a row.
	defaultRatio = 0.01

	// maxValue is the most characters of an attribute: statements are longer.
	maxValue = 2048
)

// Start begins to send traces; Close ends it. What the receiver does not take in time
// is dropped: at most 2,048 spans wait. It does not fail when the receiver is away.
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
