package tracing

import (
	"context"
	"strings"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
)

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
