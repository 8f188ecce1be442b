package tracing

import (
	"context"
	"strings"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
)

// Statements returns a tracer that makes a child span for each statement; nil if tracing is off. It
// does not record the statements' arguments.
func (t *Traces) Statements() pgx.QueryTracer {
	if t == nil {
		return nil
	}
	return statements{otelpgx.NewTracer(otelpgx.WithTracerProvider(t.provider), otelpgx.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelpgx.WithDisableConnectionDetailsInAttributes(), otelpgx.WithSpanNameCtxFunc(operation))}
}

// operation returns the first word of a statement, such as SELECT.
func operation(ctx context.Context, statement string) string {
	return otelpgx.SQLOperationName(ctx, strings.TrimLeft(statement, "( \n\t"))
}

// statements calls the tracer only in recorded traces. Elsewhere it would take times for metrics
// that do not exist.
type statements struct{ *otelpgx.Tracer }

func recording(ctx context.Context) bool { return trace.SpanFromContext(ctx).IsRecording() }

// TraceQueryStart implements pgx.QueryTracer.
func (s statements) TraceQueryStart(ctx context.Context, c *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !recording(ctx) {
		return ctx
	}
	return s.Tracer.TraceQueryStart(ctx, c, data)
}

// TraceQueryEnd implements pgx.QueryTracer.
func (s statements) TraceQueryEnd(ctx context.Context, c *pgx.Conn, data pgx.TraceQueryEndData) {
	if recording(ctx) {
		s.Tracer.TraceQueryEnd(ctx, c, data)
	}
}

// TraceBatchStart implements pgx.BatchTracer.
func (s statements) TraceBatchStart(ctx context.Context, c *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if !recording(ctx) {
		return ctx
	}
	return s.Tracer.TraceBatchStart(ctx, c, data)
}

// TraceBatchQuery implements pgx.BatchTracer.
func (s statements) TraceBatchQuery(ctx context.Context, c *pgx.Conn, data pgx.TraceBatchQueryData) {
	if recording(ctx) {
		s.Tracer.TraceBatchQuery(ctx, c, data)
	}
}

// TraceBatchEnd implements pgx.BatchTracer.
func (s statements) TraceBatchEnd(ctx context.Context, c *pgx.Conn, data pgx.TraceBatchEndData) {
	if recording(ctx) {
		s.Tracer.TraceBatchEnd(ctx, c, data)
	}
}

// TraceAcquireStart implements pgxpool.AcquireTracer.
func (s statements) TraceAcquireStart(ctx context.Context, p *pgxpool.Pool, data pgxpool.TraceAcquireStartData) context.Context {
	if !recording(ctx) {
		return ctx
	}
	return s.Tracer.TraceAcquireStart(ctx, p, data)
}

// TraceAcquireEnd implements pgxpool.AcquireTracer.
func (s statements) TraceAcquireEnd(ctx context.Context, p *pgxpool.Pool, data pgxpool.TraceAcquireEndData) {
	if recording(ctx) {
		s.Tracer.TraceAcquireEnd(ctx, p, data)
	}
}
