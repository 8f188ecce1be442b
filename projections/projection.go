package projections

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

// Projection gives entries their effect on read tables. It holds a bounded number
// of rows in memory, whatever the entries say.
type Projection struct {
	Tables *table.Set
	Rules  Rules

	// Saved is called with a fold when what has changed in it was written; nil:
	// nobody looks. A workspace may have several in one Project.
	Saved func(workspaceID string, f *table.Fold) error

	// Sliced is called while ProjectMass works; see table.SlicedFunc.
	Sliced table.SlicedFunc

	// MassRows is how many rows an entry may reach without naming them before
	// they are too many to be loaded; default 1000.
	MassRows int
}

const (
	defaultMassRows = 1000

	// loadBytes bounds what is loaded at once: entries that need more are folded in
	// several parts.
	loadBytes = 8 << 20
)

// Project gives segments of several workspaces their effect, within tx. It stops in
// a workspace before an entry that reaches too many rows, which is for ProjectMass,
// and returns the positions of these entries.
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

// inParts projects segments that need too much at once: some workspaces after the
// others, or the first half of a workspace's entries and then the rest.
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

// fold applies the entries to the rows that are loaded, and writes what changes.
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

// ProjectMass gives one entry its effect, within tx, without loading the rows that
// it reaches and does not name: the database changes them, a slice after the other.
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
	for _, t := range p.Tables.All() {
		if t.Label == resource {
			return t, nil
		}
	}
	return nil, fmt.Errorf("no read table holds %s", resource)
}
