package measure

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
)

const (
	// tracedRounds is how often the rates with and without traces are measured in turn.
	tracedRounds = 32
	tracedRatio  = 0.01
)

// Traced compares a rate while 1 % of the work is traced, and sent to a receiver on this
// machine, with the same without traces. The two alternate, and the median of the ratios
// counts. rate measures once; its argument is nil for the rate without traces.
func (o *Options) Traced(ctx context.Context, name string, rate func(*tracing.Traces) (float64, error)) error {
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	client, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(receiver.URL+"/v1/traces"))
	if err != nil {
		return fmt.Errorf("cannot trace: %w", err)
	}
	traces, err := tracing.Start(ctx, tracing.Config{Exporter: client, Sampler: sdktrace.ParentBased(sdktrace.TraceIDRatioBased(tracedRatio)), Logger: NoLogger()})
	if err != nil {
		return fmt.Errorf("cannot trace: %w", err)
	}
	defer traces.Close(ctx)
	type (
		round struct{ with, without float64 }
		side  struct {
			traces *tracing.Traces
			rate   *float64
		}
	)
	rounds := make([]round, tracedRounds)
	for i := range rounds {
		r := &rounds[i]
		sides := []side{{nil, &r.without}, {traces, &r.with}}
		if i%2 == 1 { // what comes second is slower for the tables that have grown
			slices.Reverse(sides)
		}
		for _, s := range sides {
			if *s.rate, err = rate(s.traces); err != nil {
				return err
			}
		}
		o.Say("round %d of %d: %.0f/s with traces, %.0f/s without: %.3f", i+1, tracedRounds, r.with, r.without, r.with/r.without)
	}
	middle := MedianBy(rounds, func(r round) float64 { return r.with / r.without })
	o.Report.Add(Figure{Name: name, Value: middle.with, Unit: "/s", Limit: middle.without, LimitIs: "the same without traces"}.RatioAtLeast(0.97))
	return nil
}
