package tracing

import (
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

// askedPerSecond is how many traces of others a process goes on with in a second: a
// caller that asks for each request to be traced costs no more than that.
const askedPerSecond = 50

// sampler decides which traces are recorded. Below a span of this process its decision
// stands. A trace that a caller records, or that is linked to a recorded append, is
// recorded, up to askedPerSecond. Of the others, a ratio is.
type sampler struct {
	ratio sdktrace.Sampler
	asked *rate.Limiter
	clock func() time.Time
}

func newSampler(ratio float64, clock func() time.Time) *sampler {
	return &sampler{ratio: sdktrace.TraceIDRatioBased(ratio), asked: rate.NewLimiter(askedPerSecond, askedPerSecond), clock: clock}
}

// ShouldSample implements sdktrace.Sampler.
func (s *sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	parent := trace.SpanContextFromContext(p.ParentContext)
	result := sdktrace.SamplingResult{Decision: sdktrace.Drop, Tracestate: parent.TraceState()}
	switch {
	case parent.IsValid() && !parent.IsRemote():
		if parent.IsSampled() {
			result.Decision = sdktrace.RecordAndSample
		}
	case parent.IsSampled(), linked(p.Links):
		if s.asked.AllowN(s.clock(), 1) {
			result.Decision = sdktrace.RecordAndSample
		}
	case !parent.IsValid():
		return s.ratio.ShouldSample(p)
	}
	return result
}

// linked reports whether one of the links is to a recorded trace.
func linked(links []trace.Link) bool {
	for i := range links {
		if links[i].SpanContext.IsSampled() {
			return true
		}
	}
	return false
}

// Description implements sdktrace.Sampler.
func (s *sampler) Description() string { return "Asked or " + s.ratio.Description() }
