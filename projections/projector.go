package projections

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// Projector folds segments of the log into the read tables.
type Projector struct {
	tables    *tables
	rules     Rules
	entries   prometheus.Counter
	anomalies *prometheus.CounterVec
}

// NewProjector makes a Projector that folds by the rules and counts its work
// with the registerer; nil counts without showing it to anybody.
func NewProjector(rules Rules, metrics prometheus.Registerer) (*Projector, error) {
	return newProjector(rules, metrics, byItsName)
}

func newProjector(rules Rules, metrics prometheus.Registerer, named naming) (*Projector, error) {
	p := &Projector{
		tables: newTables(named),
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

// Handle is the handler of the Watermill Router: it does its work in the
// transaction of the message's claim.
func (p *Projector) Handle(msg *message.Message) error {
	claim, err := eventlog.ClaimOf(msg)
	if err != nil {
		return err
	}
	_, err = p.project(msg.Context(), claim.Tx, claim.Segments)
	return err
}

// project gives segments of several workspaces their effect in tx, and returns
// what it has folded.
func (p *Projector) project(ctx context.Context, tx pgx.Tx, segments []eventlog.Segment) (*folding, error) {
	f := newFolding(p.tables, segments)
	if err := f.load(ctx, tx); err != nil {
		return nil, err
	}
	for i := range segments {
		s := &segments[i]
		state := f.states[s.WorkspaceID]
		for j := range s.Entries {
			p.rules.Apply(state, &s.Entries[j])
		}
	}
	if err := f.save(ctx, tx); err != nil {
		return nil, err
	}
	// Counted before the commit: a failing one counts twice, which a counter of
	// work done may.
	for i := range segments {
		p.entries.Add(float64(len(segments[i].Entries)))
		for _, a := range f.states[segments[i].WorkspaceID].Anomalies {
			p.anomalies.WithLabelValues(string(a.Reason)).Inc()
		}
	}
	return f, nil
}
