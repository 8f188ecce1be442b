package tracing

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/time/rate"
)

// askedPerSecond is how many traces of callers a process goes on with in a second, and how
// many that are linked to a recorded one it begins: a caller that asks for each request to
// be traced costs no more than that.
const askedPerSecond = 50

// sampler is a tracer that decides which traces are recorded, and makes spans of those
// alone: at a ratio of 1 %, the spans of the others would cost more than what is recorded.
// Below a span of this process its decision stands. A trace that a caller records, or that
// is linked to a recorded append, is recorded, up to askedPerSecond each. Of the others, a
// ratio is.
type sampler struct {
	embedded.Tracer

	next    trace.Tracer // makes the spans; it records all
	ratio   float64
	callers *rate.Limiter // callers cannot use up what there is for links
	links   *rate.Limiter
	clock   func() time.Time
}

func newSampler(next trace.Tracer, ratio float64, clock func() time.Time) *sampler {
	return &sampler{
		next: next, ratio: ratio, clock: clock,
		callers: rate.NewLimiter(askedPerSecond, askedPerSecond), links: rate.NewLimiter(askedPerSecond, askedPerSecond),
	}
}

// unrecorded stands for a span where a trace is not recorded, so that what is below it is
// not either. It belongs to no trace: what is called begins one of its own.
type unrecorded struct{ noop.Span }

// Start implements trace.Tracer.
func (s *sampler) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if s.records(ctx, options) {
		return s.next.Start(ctx, name, options...)
	}
	return trace.ContextWithSpan(ctx, unrecorded{}), unrecorded{}
}

func (s *sampler) records(ctx context.Context, options []trace.SpanStartOption) bool {
	cfg := trace.NewSpanStartConfig(options...)
	if !cfg.NewRoot() {
		parent := trace.SpanFromContext(ctx)
		if _, below := parent.(unrecorded); below {
			return false
		}
		if caller := parent.SpanContext(); caller.IsValid() {
			return caller.IsSampled() && (!caller.IsRemote() || s.callers.AllowN(s.clock(), 1))
		}
	}
	if linked(cfg.Links()) {
		return s.links.AllowN(s.clock(), 1)
	}
	return s.draws()
}

// draws decides at random about a trace that nobody asked for.
func (s *sampler) draws() bool {
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	return float64(binary.LittleEndian.Uint64(random[:])>>11) < s.ratio*(1<<53)
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

// RecordsLinks reports whether a tracer would now record a span for its link to a recorded
// one. While it would not, nobody needs to look for links.
func RecordsLinks(t trace.Tracer) bool {
	s, ok := t.(*sampler)
	return !ok || s.links.TokensAt(s.clock()) >= 1
}
