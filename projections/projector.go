package projections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
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
	changing atomic.Int32 // mass changes in flight
	logger   *slog.Logger
	tracer   trace.Tracer // nil: no spans

	entries   prometheus.Counter
	mass      prometheus.Counter
	anomalies *prometheus.CounterVec
}

// newProjector registers its metrics unless metrics is nil.
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

// stallTimeout ends the handling of a claim that makes no progress, so that its locks are released
// if the database hangs. One statement takes much less time.
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

// trace starts the span of a claim, if there is a tracer. Call end with the claim's result.
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
		// Counted before the commit: if it fails, the work is repeated and counted again.
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

// bound is how much work a mass change may do before it counts as long: some seconds. The limit
// that is reached first counts, because the time per row depends on the database.
type bound struct {
	rows int
	time time.Duration // excluding pauses
}

// pauseAfter returns how long a mass change pauses after a slice that took so long, with underWay
// changes in flight. A single change leaves the database to others half of the time. Several
// together run at most one statement at a time, on average.
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

// Projection applies entries to read tables. It holds a bounded number of rows in memory, whatever
// the entries contain.
type Projection struct {
	Tables *table.Set
	Rules  Rules

	// Saved is called with a fold after its changes were written; it may be nil. One Project may
	// call it several times for a workspace.
	Saved func(workspaceID string, f *table.Fold) error

	// Sliced is called while ProjectMass works; see table.SlicedFunc.
	Sliced table.SlicedFunc

	// MassRows is the most rows that are loaded for an entry that reaches rows without naming them.
	// Entries that reach more are for ProjectMass. Default 1000.
	MassRows int
}

const (
	defaultMassRows = 1000

	// loadBytes is the most bytes that are loaded at once. Entries that need more are folded in
	// several parts.
	loadBytes = 8 << 20
)

// Project applies segments of several workspaces, within tx. In each workspace it stops before the
// first entry that reaches too many rows, which is for ProjectMass. It returns the positions of
// these entries by workspace.
func (p *Projection) Project(ctx context.Context, tx pgx.Tx, list []eventlog.Segment) (stops map[string]int64, err error) {
	stops = map[string]int64{}
	return stops, p.project(ctx, tx, list, stops)
}

func (p *Projection) project(ctx context.Context, tx pgx.Tx, list []eventlog.Segment, stops map[string]int64) error {
	s := newSegments(p.Tables, list)
	s.most, s.budget.Bytes = p.massRows(), loadBytes
	if err := s.load(ctx, tx); err != nil {
		return err
	}
	if s.budget.Exceeded {
		return p.inParts(ctx, tx, list, stops)
	}
	s.cut(stops)
	return p.fold(ctx, tx, s)
}

func (p *Projection) massRows() int {
	if p.MassRows > 0 {
		return p.MassRows
	}
	return defaultMassRows
}

// inParts projects segments that exceed the budget: one half of the workspaces after the other or,
// if there is only one workspace, one half of its entries after the other.
func (p *Projection) inParts(ctx context.Context, tx pgx.Tx, list []eventlog.Segment, stops map[string]int64) error {
	if len(list) > 1 {
		if err := p.project(ctx, tx, list[:len(list)/2], stops); err != nil {
			return err
		}
		return p.project(ctx, tx, list[len(list)/2:], stops)
	}
	w, entries := list[0].WorkspaceID, list[0].Entries
	if len(entries) == 1 {
		stops[w] = entries[0].Position
		return nil
	}
	for _, half := range [][]domain.Entry{entries[:len(entries)/2], entries[len(entries)/2:]} {
		if _, stopped := stops[w]; stopped {
			return nil
		}
		if err := p.project(ctx, tx, []eventlog.Segment{{WorkspaceID: w, Entries: half}}, stops); err != nil {
			return err
		}
	}
	return nil
}

// fold applies the entries to the loaded rows and writes the changes.
func (p *Projection) fold(ctx context.Context, tx pgx.Tx, s *segments) error {
	for _, w := range s.workspaces {
		for i := range s.entries[w] {
			p.Rules.Apply(s.folds[w].State, &s.entries[w][i])
		}
	}
	if err := s.save(ctx, tx); err != nil || p.Saved == nil {
		return err
	}
	for _, w := range s.workspaces {
		if err := p.Saved(w, s.folds[w]); err != nil {
			return err
		}
	}
	return nil
}

// ProjectMass applies one entry, within tx, without loading the rows that it reaches but does not
// name. The database changes these rows, slice by slice.
func (p *Projection) ProjectMass(ctx context.Context, tx pgx.Tx, workspaceID string, e *domain.Entry) error {
	s := newSegments(p.Tables, []eventlog.Segment{{WorkspaceID: workspaceID, Entries: []domain.Entry{*e}}})
	s.needs[workspaceID].MassEffects = domain.MassEffects{}
	if err := s.load(ctx, tx); err != nil {
		return err
	}
	state := s.folds[workspaceID].State
	state.NoteMass = true
	if err := p.fold(ctx, tx, s); err != nil {
		return err
	}
	for i := range state.Mass {
		t, err := p.tableOf(state.Mass[i].Resource)
		if err != nil {
			return err
		}
		if err := table.ChangeAll(ctx, tx, t, workspaceID, &state.Mass[i], p.Sliced); err != nil {
			return err
		}
	}
	return nil
}

func (p *Projection) tableOf(resource string) (*table.Table, error) {
	if resource == domain.ResourceCreditHistory {
		return p.Tables.CreditMoves, nil
	}
	for _, t := range p.Tables.All() {
		if t.Label == resource {
			return t, nil
		}
	}
	return nil, fmt.Errorf("no read table holds %s", resource)
}

// segments holds the segments of several workspaces, with the rows that each of them needs.
type segments struct {
	tables     *table.Set
	workspaces []string
	entries    map[string][]domain.Entry
	needs      map[string]*domain.Needs
	folds      map[string]*table.Fold

	most   int // the most rows that an entry may reach without naming them, see Projection.MassRows
	budget table.Budget
	large  map[largeSet]struct{}
}

// largeSet identifies rows that are too many to load: the rows of a workspace with this id in this
// column.
type largeSet struct{ workspaceID, column, id string }

// newSegments sets no limit on what is loaded, and leaves large empty.
func newSegments(tables *table.Set, list []eventlog.Segment) *segments {
	s := &segments{
		tables: tables, entries: map[string][]domain.Entry{}, needs: map[string]*domain.Needs{}, folds: map[string]*table.Fold{},
		budget: table.Budget{Bytes: 1 << 62}, large: map[largeSet]struct{}{},
	}
	for i := range list {
		workspaceID, entries := list[i].WorkspaceID, list[i].Entries
		s.workspaces = append(s.workspaces, workspaceID)
		s.entries[workspaceID] = entries
		needs := &domain.Needs{}
		for j := range entries {
			needs.Add(&entries[j])
		}
		s.needs[workspaceID] = needs
		s.folds[workspaceID] = table.NewFold()
	}
	return s
}

// load reads the rows that the segments need. One round trip reads the rows that entries name or
// reach through an invoice or a period. Another one reads the rows that show a client or contractor
// whose name changes. It stops when the budget is exceeded.
func (s *segments) load(ctx context.Context, tx pgx.Tx) error {
	t := s.tables
	var b pgx.Batch
	named := func(from *table.Table, by string, ids func(*domain.Needs) domain.Set) {
		s.queue(&b, from, table.By(by), ids)
	}
	reached := func(from *table.Table, by string, ids func(*domain.Needs) domain.Set) {
		s.queue(&b, from, s.bounded(by), ids)
	}
	linesOf := func(n *domain.Needs) domain.Set { return n.LinesOf }
	named(t.Invoices, "id", func(n *domain.Needs) domain.Set { return n.Invoices })
	reached(t.Invoices, "period", func(n *domain.Needs) domain.Set { return n.InvoicesIn })
	named(t.Charges, "id", func(n *domain.Needs) domain.Set { return n.Charges })
	named(t.TimeEntries, "id", func(n *domain.Needs) domain.Set { return n.TimeEntries })
	reached(t.Charges, "invoice_id", linesOf)
	reached(t.TimeEntries, "invoice_id", linesOf)
	named(t.Payments, "id", func(n *domain.Needs) domain.Set { return n.Payments })
	named(t.Clients, "id", func(n *domain.Needs) domain.Set { return n.Clients })
	named(t.Contractors, "id", func(n *domain.Needs) domain.Set { return n.Contractors })
	named(t.Credits, "id", func(n *domain.Needs) domain.Set { return n.Credits })
	named(t.ClosedPeriods, "period", func(n *domain.Needs) domain.Set { return n.Periods })
	removedCharges := func(n *domain.Needs) domain.Set { return n.RemovedCharges }
	named(t.RemovedTimeEntries, "id", func(n *domain.Needs) domain.Set { return n.RemovedTimeEntries })
	named(t.RemovedCharges, "id", removedCharges)
	named(t.RemovedBilledCharges, "id", removedCharges)
	t.CreditMoves.QueueLoad(&b, s.creditMoves(), s.folds, &s.budget)
	if err := send(ctx, tx, &b); err != nil || s.budget.Exceeded {
		return err
	}
	return s.loadRenamed(ctx, tx)
}

func (s *segments) queue(b *pgx.Batch, from *table.Table, lookup *table.Lookup, ids func(*domain.Needs) domain.Set) {
	for _, w := range s.workspaces {
		for id := range ids(s.needs[w]) {
			lookup.Add(w, id)
		}
	}
	from.QueueLoad(b, lookup, s.folds, &s.budget)
}

// bounded returns a lookup by a column in which any number of rows may hold the same id.
func (s *segments) bounded(column string) *table.Lookup {
	return table.By(column).Bounded(s.most, func(workspaceID string, values []string) {
		s.large[largeSet{workspaceID, column, values[0]}] = struct{}{}
	})
}

func (s *segments) creditMoves() *table.Lookup {
	lookup := table.By("client_id", "id")
	for _, w := range s.workspaces {
		for key := range s.needs[w].CreditMoves {
			clientID, creditID := domain.SplitCreditMoveKey(key)
			lookup.Add(w, clientID, creditID)
		}
	}
	return lookup
}

// loadRenamed reads the rows that show a client or contractor whose name the
// segment changes.
func (s *segments) loadRenamed(ctx context.Context, tx pgx.Tx) error {
	clients, contractors := s.bounded("client_id"), s.bounded("contractor_id")
	for _, w := range s.workspaces {
		needs, state := s.needs[w], s.folds[w].State
		for id, name := range needs.ClientNames {
			stored := ""
			if c := state.Clients.Get(id); c != nil {
				stored = c.Name
			}
			if domain.Renamed(name, stored) {
				clients.Add(w, id)
			}
		}
		for id, name := range needs.ContractorNames {
			stored := ""
			if c := state.Contractors.Get(id); c != nil {
				stored = c.Name
			}
			if domain.Renamed(name, stored) {
				contractors.Add(w, id)
			}
		}
	}
	var b pgx.Batch
	t := s.tables
	for _, party := range []*table.Lookup{clients, contractors} {
		for _, shows := range []*table.Table{t.Invoices, t.Charges, t.TimeEntries, t.Payments} {
			shows.QueueLoad(&b, party, s.folds, &s.budget)
		}
	}
	return send(ctx, tx, &b)
}

// cut removes from each segment the first entry that reaches a large set and all entries after it.
// It puts the position of that entry into stops.
func (s *segments) cut(stops map[string]int64) {
	for w, entries := range s.entries {
		if i := s.firstLarge(w, entries); i < len(entries) {
			stops[w] = entries[i].Position
			s.entries[w] = entries[:i]
		}
	}
}

// firstLarge returns the index of the first entry that reaches a large set, or len(entries) if
// there is none.
func (s *segments) firstLarge(workspaceID string, entries []domain.Entry) int {
	if len(s.large) == 0 && !s.needs[workspaceID].Forgotten {
		return len(entries)
	}
	for i := range entries {
		var needs domain.Needs
		needs.Add(&entries[i])
		if needs.Forgotten {
			return i
		}
		for id := range needs.LinesOf {
			if s.isLarge(workspaceID, "invoice_id", id) {
				return i
			}
		}
		for period := range needs.InvoicesIn {
			if s.isLarge(workspaceID, "period", period) {
				return i
			}
		}
		for id := range needs.ClientNames {
			if s.isLarge(workspaceID, "client_id", id) {
				return i
			}
		}
		for id := range needs.ContractorNames {
			if s.isLarge(workspaceID, "contractor_id", id) {
				return i
			}
		}
	}
	return len(entries)
}

func (s *segments) isLarge(workspaceID, column, id string) bool {
	_, large := s.large[largeSet{workspaceID, column, id}]
	return large
}

// maxPending is how many statements of about 1 MiB each are sent at once.
const maxPending = 4

// save writes the changes of the folds, in one round trip unless they are large.
func (s *segments) save(ctx context.Context, tx pgx.Tx) error {
	var b pgx.Batch
	large := 0
	for _, t := range s.tables.All() {
		err := t.QueueSave(s.workspaces, s.folds, func(sql string, args []any, full bool) error {
			b.Queue(sql, args...)
			if full {
				large++
			}
			if large < maxPending {
				return nil
			}
			err := send(ctx, tx, &b)
			b, large = pgx.Batch{}, 0
			return err
		})
		if err != nil {
			return err
		}
	}
	return send(ctx, tx, &b)
}

func send(ctx context.Context, tx pgx.Tx, b *pgx.Batch) error {
	if b.Len() == 0 {
		return nil
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("projector: %w", err)
	}
	return nil
}

// RulesVersion is the version of the rules by which this program makes rows: the fold of package
// domain and the form of the answers. Raise it with every change that makes different rows from the
// same log. A rebuild then converts existing workspaces, and status shows which ones are not
// converted yet.
const RulesVersion = 3

// Rules define how entries become rows.
type Rules struct {
	Version int

	// Apply folds the next entry of a workspace into its rows. The result must depend only on the
	// state and the entry.
	Apply func(*domain.State, *domain.Entry)
}

// LiveRules are the rules of this program.
func LiveRules() Rules {
	return Rules{Version: RulesVersion, Apply: (*domain.State).Apply}
}

// OrLive returns the rules, or LiveRules when they are zero.
func (r Rules) OrLive() Rules {
	if r.Apply == nil {
		return LiveRules()
	}
	return r
}
