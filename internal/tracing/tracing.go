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
