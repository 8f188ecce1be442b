package projections

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

// Project gives segments of several workspaces their effect on tables, within
// tx, by the given rules. It returns the folds by workspace, with what has
// changed in them.
func Project(ctx context.Context, tx pgx.Tx, tables *table.Set, rules Rules, list []eventlog.Segment) (map[string]*table.Fold, error) {
	s := newSegments(tables, list)
	if err := s.load(ctx, tx); err != nil {
		return nil, err
	}
	for i := range list {
		state := s.folds[list[i].WorkspaceID].State
		for j := range list[i].Entries {
			rules.Apply(state, &list[i].Entries[j])
		}
	}
	if err := s.save(ctx, tx); err != nil {
		return nil, err
	}
	return s.folds, nil
}

// projector is the handler that keeps the read tables up to date.
type projector struct {
	tables    *table.Set
	rules     Rules
	entries   prometheus.Counter
	anomalies *prometheus.CounterVec
}

// newProjector registers its metrics unless the registerer is nil.
func newProjector(rules Rules, metrics prometheus.Registerer) (*projector, error) {
	p := &projector{
		tables: table.NewSet(),
		rules:  rules,
		entries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ledgerfeed_projected_entries_total",
			Help: "Entries folded into the read tables.",
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
	for _, c := range []prometheus.Collector{p.entries, p.anomalies} {
		if err := metrics.Register(c); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// handle is the handler of the Watermill Router. It works in the transaction of
// the message's claim, which the subscriber commits.
func (p *projector) handle(msg *message.Message) error {
	claim, err := eventlog.ClaimOf(msg)
	if err != nil {
		return err
	}
	folds, err := Project(msg.Context(), claim.Tx, p.tables, p.rules, claim.Segments)
	if err != nil {
		return err
	}
	// Counted before the commit: when that fails the work is done and counted
	// twice.
	for i := range claim.Segments {
		p.entries.Add(float64(len(claim.Segments[i].Entries)))
	}
	for _, f := range folds {
		for _, a := range f.State.Anomalies {
			p.anomalies.WithLabelValues(string(a.Reason)).Inc()
		}
	}
	return nil
}
