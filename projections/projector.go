package projections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

// projector is the handler that keeps the read tables up to date.
type projector struct {
	tables   *table.Set
	rules    Rules
	massRows int
	long     bound
	changing atomic.Int32 // mass changes under way
	logger   *slog.Logger
	tracer   trace.Tracer // nil: no spans

	entries   prometheus.Counter
	mass      prometheus.Counter
	anomalies *prometheus.CounterVec
}

// newProjector registers its metrics unless the registerer is nil.
func newProjector(tables *table.Set, rules Rules, massRows int, long bound, logger *slog.Logger, metrics prometheus.Registerer) (*projector, error) {
	p := &projector{
		tables: tables, rules: rules, massRows: massRows, long: long, logger: logger,
		entries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ledgerfeed_projected_entries_total",
			Help: "Entries folded into the read tables.",
		}),
		mass: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ledgerfeed_mass_changed_rows_total",
			Help: "Rows changed in the database by entries that reach too many rows to be loaded, such as a rename.",
		}),
		anomalies: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_anomalies_total",
			Help: "Entries that could not have their effect, or not all of it, by reason.",
		}, []string{"reason"}),
	}
	for _, reason := range domain.Reasons() {
		p.anomalies.WithLabelValues(string(reason))
	}
	if metrics == nil {
		return p, nil
	}
	for _, c := range []prometheus.Collector{p.entries, p.mass, p.anomalies} {
		if err := metrics.Register(c); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// stallTimeout ends the handling of a claim that makes no progress, so that its
// locks are released when the database hangs. A statement takes much less.
const stallTimeout = 2 * time.Minute

var errStalled = errors.New("no progress for " + stallTimeout.String())

// handle is the handler of the Watermill Router. It works in the transaction of
// the message's claim, which the subscriber commits.
func (p *projector) handle(msg *message.Message) (err error) {
	claim, err := eventlog.ClaimOf(msg)
	if err != nil {
		return err
	}
	ctx, end := p.trace(msg.Context(), claim)
	defer func() { end(err) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(stallTimeout, func() { cancel(errStalled) })
	defer stalled.Stop()
	progress := func() { stalled.Reset(stallTimeout) }
	if err := p.project(ctx, claim, progress); err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
			return fmt.Errorf("%w: %w", cause, err)
		}
		return err
	}
	return nil
}

// trace begins the span of a claim, if there is a tracer; end takes its result.
func (p *projector) trace(ctx context.Context, claim *eventlog.Claim) (spanned context.Context, end func(error)) {
	if p.tracer == nil {
		return ctx, func(error) {}
	}
	ctx, span := p.tracer.Start(ctx, "project", trace.WithSpanKind(trace.SpanKindConsumer))
	if span.IsRecording() {
		entries := 0
		for i := range claim.Segments {
			entries += len(claim.Segments[i].Entries)
		}
		span.SetAttributes(attribute.Int("ledgerfeed.workspaces", len(claim.Segments)), attribute.Int("ledgerfeed.entries", entries))
	}
	return ctx, func(err error) { tracing.End(span, err) }
}

func (p *projector) project(ctx context.Context, claim *eventlog.Claim, progress func()) error {
	do := Projection{Tables: p.tables, Rules: p.rules, MassRows: p.massRows, Sliced: p.sliced(claim, progress)}
	do.Saved = func(_ string, f *table.Fold) error {
		progress()
		for _, a := range f.State.Anomalies {
			p.anomalies.WithLabelValues(string(a.Reason)).Inc()
		}
		return nil
	}
	stops, err := do.Project(ctx, claim.Tx, claim.Segments)
	if err != nil {
		return err
	}
	for i := range claim.Segments {
		s := &claim.Segments[i]
		position, stopped := stops[s.WorkspaceID]
		if stopped && claim.Mass && position == s.After+1 {
			if err := p.projectMass(ctx, &do, claim, &s.Entries[0]); err != nil {
				return err
			}
			position++
		}
		if stopped && position <= s.End() {
			claim.LeaveMass(s.WorkspaceID, position)
		}
		// Counted before the commit: when that fails the work is done and counted
		// twice.
		p.entries.Add(float64(len(s.Entries)))
	}
	return nil
}

func (p *projector) projectMass(ctx context.Context, do *Projection, claim *eventlog.Claim, e *domain.Entry) error {
	p.changing.Add(1)
	defer p.changing.Add(-1)
	began := time.Now()
	attrs := []any{"workspace", claim.Segments[0].WorkspaceID, "position", e.Position, "type", e.Type}
	p.logger.InfoContext(ctx, "an entry changes many rows; they are changed in the database, and other workspaces do not wait for them", attrs...)
	if err := do.ProjectMass(ctx, claim.Tx, claim.Segments[0].WorkspaceID, e); err != nil {
		return err
	}
	p.logger.InfoContext(ctx, "an entry has changed many rows", append(attrs, "took", time.Since(began))...)
	return nil
}

// bound is what a mass change may do before it is one that takes long: some seconds of
// work. What of it comes first counts: how long rows take depends on the database.
type bound struct {
	rows int
	time time.Duration // without pauses
}

// pauseAfter is how long a mass change pauses after a slice that took so long, of so many
// changes under way. One leaves the database to others half of the time, and several
// together are never more than one statement at a time, on the average.
func pauseAfter(took time.Duration, underWay int32) time.Duration {
	return took * time.Duration(max(1, underWay-1))
}

func (p *projector) sliced(claim *eventlog.Claim, progress func()) table.SlicedFunc {
	var changed bound
	return func(ctx context.Context, rows int, took time.Duration) error {
		progress()
		p.mass.Add(float64(rows))
		changed.rows += rows
		changed.time += took
		if changed.rows > p.long.rows || changed.time > p.long.time {
			if err := claim.TakesLong(); err != nil {
				return err
			}
		}
		pause := time.NewTimer(pauseAfter(took, p.changing.Load()))
		defer pause.Stop()
		select {
		case <-claim.Stopping:
			return eventlog.ErrStopped
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-pause.C:
			return nil
		}
	}
}
