package eventlog

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
)

// trace begins the span of an append, if there is a tracer; end takes its result.
func (l *Log) trace(ctx context.Context, drafts []domain.Draft) (spanned context.Context, end func(error)) {
	if l.tracer == nil {
		return ctx, func(error) {}
	}
	ctx, span := l.tracer.Start(ctx, "append", trace.WithSpanKind(trace.SpanKindProducer))
	if span.IsRecording() {
		span.SetAttributes(attribute.Int("ledgerfeed.entries", len(drafts)), attribute.String("ledgerfeed.workspace", drafts[0].WorkspaceID))
	}
	return ctx, func(err error) { tracing.End(span, err) }
}

// recorded is the span of an append in the form that log_trace takes; empty: there is
// none that is recorded.
func (l *Log) recorded(ctx context.Context) string {
	if l.tracer == nil {
		return ""
	}
	return tracing.Recorded(ctx)
}
