package tracing

import (
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

// askedPerSecond is how many traces of callers a process goes on with in a second, and how
// many that are linked to a recorded one it begins: a caller that asks for each request to
// be traced costs no more than that.
const askedPerSecond = 50

// sampler decides which traces are recorded. Below a span of this process its decision
// stands. A trace that a caller records, or that is linked to a recorded append, is
// recorded, up to askedPerSecond each. Of the others, a ratio is.
type sampler struct {
	ratio   sdktrace.Sampler
	callers *rate.Limiter // callers cannot use up what there is for links
	links   *rate.Limiter
	clock   func() time.Time
}

func newSampler(ratio float64, clock func() time.Time) *sampler {
	return &sampler{
		ratio: sdktrace.TraceIDRatioBased(ratio), clock: clock,
		callers: rate.NewLimiter(askedPerSecond, askedPerSecond), links: rate.NewLimiter(askedPerSecond, askedPerSecond),
	}
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
	case parent.IsSampled():
		if s.callers.AllowN(s.clock(), 1) {
			result.Decision = sdktrace.RecordAndSample
		}
	case linked(p.Links):
		if s.links.AllowN(s.clock(), 1) {
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
