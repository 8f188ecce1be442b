package domain_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// TestMassChangesGiveTheSameRows folds random streams entry by entry, each on no
// more than the rows that it names. What it does to others is done to their stored
// form. Bytes, positions and anomalies must be those of a fold in memory.
func TestMassChangesGiveTheSameRows(t *testing.T) {
	t.Parallel()
	changed := 0
	rapid.Check(t, func(t *rapid.T) {
		lines := drawStream(t)
		log := entriesOf(t, lines)
		st := newStore()
		for i := range log {
			changed += st.foldAlone(t, &log[i])
		}
		st.equal(t, inOneGo(t, log), "mass changes against one go")
		if t.Failed() {
			t.Fatalf("stream\n%s", strings.Join(lines, "\n"))
		}
	})
	if changed == 0 {
		t.Error("no stream had a mass change")
	}
}

// foldAlone folds one entry through the store without loading the rows that it
// does not name, and returns how many of them it changed.
func (st *store) foldAlone(t failer, e *domain.Entry) (changed int) {
	t.Helper()
	s := st.load(t, []domain.Entry{*e}, false)
	s.NoteMass = true
	s.Apply(e)
	st.save(t, s)
	for i := range s.Mass {
		changed += st.change(t, &s.Mass[i])
	}
	return changed
}

// massTables are the store's names of resources that mass changes reach.
var massTables = map[string]string{"invoices": "invoice", "charges": "charge", "time-entries": "time_entry", "payments": "payment", "credit-history": "credit_move"}

// change makes a mass change as its description says.
func (st *store) change(t failer, m *domain.MassChange) (changed int) {
	t.Helper()
	rows := st.tables[massTables[m.Resource]]
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		r := rows[id]
		if r.position >= m.Position || !r.refersTo(m.References) || !r.holds(m.Where) {
			continue
		}
		if !m.InPlace {
			r.position = m.Position
		}
		for _, s := range m.Splices {
			part := r.part(s.Part)
			if n := strings.Count(*part, s.From); n != 1 {
				t.Fatalf("%s occurs %d times in %s", s.From, n, *part)
			}
			before, rest, _ := strings.Cut(*part, s.From)
			after := ""
			if s.Until != "" {
				if n := strings.Count(*part, s.Until); n != 1 {
					t.Fatalf("%s occurs %d times in %s", s.Until, n, *part)
				}
				_, after, _ = strings.Cut(rest, s.Until)
				after = s.Until + after
			}
			*part = before + s.Text + after
		}
		rows[id] = r
		changed++
	}
	return changed
}

func (r *storedRow) refersTo(references []domain.Reference) bool {
	columns := map[string]string{"client_id": r.client, "contractor_id": r.contractor, "invoice_id": r.invoice, "period": r.period}
	for _, ref := range references {
		if columns[ref.Column] != ref.ID {
			return false
		}
	}
	return true
}

func (r *storedRow) holds(where []domain.Pieces) bool {
	for _, p := range where {
		if !slices.ContainsFunc(p.Texts, func(text string) bool { return strings.Contains(*r.part(p.Part), text) }) {
			return false
		}
	}
	return true
}

func (r *storedRow) part(p jsonform.Part) *string {
	return []*string{domain.Base: &r.parts.Base, domain.Pay: &r.parts.Pay, domain.Margin: &r.parts.Margin}[p]
}
