package eventlog_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// tracesOf are the recorded traces of a workspace's entries, by entry.
func (b *bundle) tracesOf(t *testing.T, workspaceID string) map[string]string {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), `SELECT event_id, traceparent FROM append_trace WHERE workspace_id = $1`, workspaceID)
	if err != nil {
		t.Fatal(err)
	}
	traces := map[string]string{}
	var id, traceparent string
	if _, err := pgx.ForEachRow(rows, []any{&id, &traceparent}, func() error {
		traces[id] = traceparent
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return traces
}

// tracedLog is a log of which a part of the appends is recorded.
func (b *bundle) tracedLog(t *testing.T, ratio float64) (*eventlog.Log, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithSampler(sdktrace.TraceIDRatioBased(ratio)))
	return newLog(t, eventlog.Config{Pool: b.pool, Clock: b.clock.Now, Tracer: provider.Tracer("test"), Metrics: b.metrics}), spans
}

// exemplar is the trace that the latency of appends names.
func (b *bundle) exemplar(t *testing.T) string {
	t.Helper()
	families, err := b.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, bucket := range m.GetHistogram().GetBucket() {
				if e := bucket.GetExemplar(); e != nil {
					return e.GetLabel()[0].GetValue()
				}
			}
		}
	}
	return ""
}

// TestTracesOfAppends: each way to append has one span, and the database remembers it for
// the entries that were appended in it, and for no others.
func TestTracesOfAppends(t *testing.T) {
	t.Parallel()
	b := setup(t)
	log, spans := b.tracedLog(t, 1)
	remembered := map[string]string{}
	appended := func(err error, ids ...string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		span := spans.Ended()[len(spans.Ended())-1]
		for _, id := range ids {
			remembered[id] = "00-" + span.SpanContext().TraceID().String() + "-" + span.SpanContext().SpanID().String() + "-01"
		}
		if got := b.tracesOf(t, "w"); !maps.Equal(got, remembered) {
			t.Fatalf("the database remembers %v, want %v", got, remembered)
		}
	}
	_, err := log.Append(t.Context(), client(t, "w", "single", "n"))
	appended(err, "single")
	if trace := b.exemplar(t); trace == "" || !strings.Contains(remembered["single"], trace) {
		t.Errorf("the exemplar is %q, want the trace of %s", trace, remembered["single"])
	}
	_, err = log.Append(t.Context(), client(t, "w", "first", "n"), client(t, "w", "second", "n"))
	appended(err, "first", "second")
	_, err = log.Append(t.Context(), client(t, "w", "several", "n"), client(t, "other", "several", "n"))
	appended(err, "several")
	_, err = log.Append(t.Context(), client(t, "w", "single", "n"), client(t, "w", "beside a skipped one", "n"))
	if err == nil {
		t.Fatal("an id with spaces was appended")
	}
	_, err = log.Append(t.Context(), client(t, "w", "single", "n"), client(t, "w", "third", "n"))
	appended(err, "third") // the other one was appended before
	err = pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		_, err := log.AppendTx(t.Context(), tx, client(t, "w", "in_tx", "n"))
		return err
	})
	appended(err, "in_tx")

	if _, err = log.Append(t.Context(), client(t, "w", "single", "other content")); err == nil {
		t.Fatal("other content under the same id was appended")
	}
	last := spans.Ended()[len(spans.Ended())-1]
	if status := last.Status(); !strings.Contains(status.Description, "other content") || last.Name() != "append" {
		t.Errorf("the span of a refused append: %s %+v", last.Name(), status)
	}
	appended(nil)
	b.soundLog(t, "w")
}

// TestTracesOfAGroup: appends that share a transaction keep each its own trace, and those
// that are not recorded have none.
func TestTracesOfAGroup(t *testing.T) {
	t.Parallel()
	b := setup(t)
	recorded, spans := b.tracedLog(t, 0.5)
	ids := map[string]string{} // of entries, by workspace
	done := make(chan error)
	const n = 200
	for i := range n {
		workspace, id := "w"+string(rune('a'+i%5)), "e"+strings.Repeat("x", i%50)+string(rune('a'+i/50))
		ids[id] = workspace
		go func() {
			_, err := recorded.Append(context.WithoutCancel(t.Context()), client(t, workspace, id, "n"))
			done <- err
		}()
	}
	for range n {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	sampled := map[string]bool{}
	for _, s := range spans.Ended() {
		sampled[s.SpanContext().SpanID().String()] = true
	}
	rows := 0
	for _, w := range []string{"wa", "wb", "wc", "wd", "we"} {
		for id, traceparent := range b.tracesOf(t, w) {
			rows++
			span := strings.Split(traceparent, "-")[2]
			if ids[id] != w || !sampled[span] {
				t.Errorf("%s of %s has the trace %s", id, w, traceparent)
			}
			delete(sampled, span)
		}
	}
	if rows == 0 || rows == n || len(sampled) != 0 {
		t.Errorf("%d of %d appends are remembered, and %d recorded ones are not", rows, n, len(sampled))
	}
}

// TestNoTraces: without a tracer the caller's own span is not remembered.
func TestNoTraces(t *testing.T) {
	t.Parallel()
	b := setup(t)
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.AlwaysSample()))
	ctx, span := provider.Tracer("test").Start(t.Context(), "the caller's")
	defer span.End()
	var drafts []domain.Draft
	for _, id := range []string{"a", "b"} {
		drafts = append(drafts, at(client(t, "w", id, "n"), time.Time{}))
	}
	for _, d := range [][]domain.Draft{drafts[:1], drafts} {
		if _, err := b.log.Append(ctx, d...); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.tracesOf(t, "w"); len(got) != 0 {
		t.Errorf("the database remembers %v", got)
	}
}

// TestTracesOfALockedTable: an append whose trace cannot be remembered is done all the same.
func TestTracesOfALockedTable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	log, _ := b.tracedLog(t, 1)
	holder := wide(t, b.pool.Config().ConnString(), 1)
	tx, err := holder.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `LOCK TABLE append_trace IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	testkit.NotBlocked(t, b.pool, testkit.PID(t, tx), func() {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		_, single := log.Append(ctx, client(t, "w", "single", "n"))
		_, several := log.Append(ctx, client(t, "w", "a", "n"), client(t, "other", "b", "n"))
		if single != nil || several != nil {
			t.Errorf("%v, %v", single, several)
		}
	})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.tracesOf(t, "w"); len(got) != 0 {
		t.Errorf("the database remembers %v", got)
	}
	b.soundLog(t, "w")
}
