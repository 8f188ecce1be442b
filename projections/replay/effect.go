package replay

import (
	"context"
	"slices"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

// MostForEffect is the most entries that EffectOf folds. They must also fit into one page of the
// log.
const MostForEffect = 5000

// EffectRequest names an entry and the row that it is about.
type EffectRequest struct {
	WorkspaceID  string
	Position     int64
	Resource, ID string // as in ExplainRequest; empty: the entry is about no row
}

// Effect is what an entry did to the rows.
type Effect struct {
	Row    *RowChange    // the row of the request; nil: it did not change
	Others []ChangedRows // the other rows that changed, by resource
}

// RowChange is how a row changed.
type RowChange struct {
	Made, Deleted bool
	PayOnly       bool // before or after the change, the row is only for readers with pay:read
	Fields        []FieldChange
}

// FieldChange is how a field of a row changed. Before and After are JSON, and empty if there was no
// row.
type FieldChange struct {
	Name          string
	Part          jsonform.Part
	Before, After string
}

// ChangedRows is how many rows of a resource changed.
type ChangedRows struct {
	Resource string
	Rows     int
	PayOnly  int // of Rows, those that are only for readers with pay:read
}

// EffectOf folds the log up to an entry and returns what the entry changed. It returns nil if that
// would take more than MostForEffect entries or more than one page, or if there is no such entry.
// The error is an *UnknownResourceError, or one from the database.
func (r *Replayer) EffectOf(ctx context.Context, q EffectRequest) (*Effect, error) {
	i := slices.IndexFunc(r.tables, func(t *table.Table) bool { return t.Resource == q.Resource && t.HasID() })
	if i < 0 && q.Resource != "" {
		return nil, &UnknownResourceError{q.Resource}
	}
	if q.Position > MostForEffect {
		return nil, nil
	}
	page, _, err := r.readLog(ctx, q.WorkspaceID, 0, q.Position, MostForEffect)
	if err != nil || len(page) == 0 || page[len(page)-1].Position != q.Position {
		return nil, err
	}
	f := r.foldWithoutRows(q.WorkspaceID, nil)
	rows := newMemoryStore(r.tables, f.apply)
	f.rows = rows
	if err := f.readSkips(ctx, q.Position); err != nil {
		return nil, err
	}
	if err := f.foldPage(ctx, page[:len(page)-1]); err != nil {
		return nil, err
	}
	rows.folded.Reset() // from here on, it notes which rows change
	var before, after rowState
	if i >= 0 {
		before = stateOf(r.tables[i], rows.folded, table.Key{q.ID})
	}
	if err := f.foldPage(ctx, page[len(page)-1:]); err != nil {
		return nil, err
	}
	if i >= 0 {
		after = stateOf(r.tables[i], rows.folded, table.Key{q.ID})
	}
	effect := &Effect{}
	for j, t := range r.tables {
		if !t.HasID() {
			continue
		}
		changed := ChangedRows{Resource: t.Resource}
		note := func(k table.Key) {
			if i == j && k[0] == q.ID {
				effect.Row = before.changeTo(after)
				return
			}
			changed.Rows++
			if stateOf(t, rows.folded, k).payOnly {
				changed.PayOnly++
			}
		}
		t.Changed(rows.folded, note)
		t.Deleted(rows.folded, note)
		if changed.Rows > 0 {
			effect.Others = append(effect.Others, changed)
		}
	}
	return effect, nil
}

// rowState is a row at a position; without fields there is no row.
type rowState struct {
	fields  []FieldChange // only After is set
	payOnly bool
}

func stateOf(t *table.Table, folded *table.Fold, k table.Key) (s rowState) {
	values := make([]string, len(t.Columns))
	if !t.Expected(folded, k, values) {
		return s
	}
	for i, c := range t.Columns {
		// The same conditions as in readapi/route.
		if c.Name == "billed" && values[i] == "false" || c.Name == "direction" && values[i] == domain.PaidToContractor {
			s.payOnly = true
		}
		if !c.Fragment {
			continue
		}
		part := map[string]jsonform.Part{"pay": domain.Pay, "margin": domain.Margin}[c.Name]
		fields, names, _ := fieldsOf(values[i])
		for _, name := range names {
			s.fields = append(s.fields, FieldChange{Name: name, Part: part, After: fields[name]})
		}
	}
	return s
}

// changeTo returns the change of the row to its later state.
func (s rowState) changeTo(after rowState) *RowChange {
	c := &RowChange{Made: len(s.fields) == 0, Deleted: len(after.fields) == 0, PayOnly: s.payOnly || after.payOnly}
	for _, f := range after.fields {
		for _, old := range s.fields {
			if old.Name == f.Name {
				f.Before = old.After
			}
		}
		if f.Before != f.After {
			c.Fields = append(c.Fields, f)
		}
	}
	if c.Deleted {
		for _, old := range s.fields {
			c.Fields = append(c.Fields, FieldChange{Name: old.Name, Part: old.Part, Before: old.After})
		}
	}
	return c
}
