package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
)

// attemptTracer makes the spans of attempts. Few of them are recorded: the others should cost
// next to nothing.
type attemptTracer struct {
	tracer  trace.Tracer // nil: no spans
	options []trace.SpanStartOption
}

func newAttemptTracer(tracer trace.Tracer) attemptTracer {
	return attemptTracer{tracer, []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)}}
}

// begin begins the span of an attempt: in the trace of the event's append where that is recorded,
// otherwise in one of its own. The URL may contain a secret, so the host alone is recorded.
func (t attemptTracer) begin(ctx context.Context, w *work) (spanned context.Context, end func()) {
	if t.tracer == nil {
		return ctx, func() {}
	}
	a := w.attempt
	ctx, w.span = t.tracer.Start(tracing.Within(ctx, a.Traced), "webhook attempt", t.options...)
	return ctx, func() {
		defer w.span.End()
		if !w.span.IsRecording() {
			return
		}
		w.span.SetAttributes(
			attribute.String("ledgerfeed.workspace", a.Key().WorkspaceID),
			attribute.String("ledgerfeed.webhook", a.Key().WebhookID),
			attribute.String("ledgerfeed.event", a.EventID),
			attribute.String("ledgerfeed.event_type", a.EventType),
			attribute.Int("ledgerfeed.attempt", a.Number()),
			attribute.String("ledgerfeed.outcome", string(w.result.Outcome)),
			attribute.String("server.address", a.Endpoint.URL.Hostname()),
			attribute.Int("http.response.status_code", w.result.Status),
		)
		if !w.result.Success() {
			w.span.SetStatus(codes.Error, w.result.Error)
		}
	}
}

const (
	// tracesTimeout bounds the look for traces: deliveries do not wait for it for longer.
	tracesTimeout = 200 * time.Millisecond
	// traceRetention is how long it is remembered in which trace an entry was appended.
	// Most systems for traces keep them no longer.
	traceRetention = 7 * 24 * time.Hour
	// tracesSlice is how many of them one transaction deletes.
	tracesSlice = 10_000
)

// forgetTraces deletes the traces of appends that are older than traceRetention, a
// transaction for every tracesSlice of them; the rest the next time, if somebody has locked it.
func (s *store) forgetTraces(ctx context.Context, now time.Time) error {
	for deleted := int64(tracesSlice); deleted == tracesSlice; {
		err := pg.InLimitedTx(ctx, s.pool, lockTimeout, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, `
				DELETE FROM append_trace WHERE ctid = ANY (ARRAY(
				       SELECT ctid FROM append_trace WHERE recorded_at < $1 LIMIT $2))`,
				now.Add(-traceRetention), tracesSlice)
			if err != nil {
				return fmt.Errorf("delete old traces of appends: %w", err)
			}
			deleted = tag.RowsAffected()
			return nil
		})
		if pg.Locked(err) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readTraces adds to what was polled the traces in which the events were appended: one
// for each, whatever was recorded.
func (s *store) readTraces(ctx context.Context, polled *scheduler.Polled) error {
	var workspaces, events []string
	attempts := map[[2]string][]*scheduler.Attempt{}
	for i := range polled.Results {
		w := polled.Poll.Requests[i].Key.WorkspaceID
		for _, list := range polled.Results[i].Attempts {
			for _, a := range list {
				key := [2]string{w, a.EventID}
				if attempts[key] == nil {
					workspaces, events = append(workspaces, w), append(events, a.EventID)
				}
				attempts[key] = append(attempts[key], a)
			}
		}
	}
	if len(events) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tracesTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, tracesSQL, workspaces, events)
	if err != nil {
		return fmt.Errorf("read traces: %w", err)
	}
	var workspace, event, traceparent string
	_, err = pgx.ForEachRow(rows, []any{&workspace, &event, &traceparent}, func() error {
		for _, a := range attempts[[2]string{workspace, event}] {
			a.Traced = traceparent
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read traces: %w", err)
	}
	return nil
}

// tracesSQL is the first trace of each event $2 in the workspace $1 beside it.
const tracesSQL = `
	SELECT k.workspace_id, k.event_id, t.traceparent
	  FROM unnest($1::text[], $2::text[]) AS k (workspace_id, event_id)
	 CROSS JOIN LATERAL (
	       SELECT traceparent FROM append_trace t
	        WHERE t.workspace_id = k.workspace_id AND t.event_id = k.event_id
	        ORDER BY traceparent LIMIT 1) AS t`
