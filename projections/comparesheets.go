package projections

import (
	"slices"
	"strconv"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// The names of what is not a resource of the API but compared like one.
const (
	sheetClosedPeriods = "closed-periods"
	sheetAnomalies     = "anomalies"
)

// Resources returns the names that a rebuild can be limited to, as in the
// paths of the API.
func Resources() []string {
	return []string{"invoices", "charges", "time-entries", "payments", "clients", "contractors", "credit"}
}

// newSheets lists every read table. The order is that of the report.
func newSheets(t *tables) []*sheet {
	return []*sheet{
		sheetOf("invoices", t.invoices),
		sheetOf("charges", t.charges),
		sheetOf("time-entries", t.timeEntries),
		sheetOf("payments", t.payments),
		sheetOf("clients", t.clients),
		sheetOf("contractors", t.contractors),
		sheetOf("credit", t.credits),
		creditMoveSheet(t.named),
		closedPeriodSheet(t.named),
		anomalySheet(t.named),
	}
}

// sheetOf makes the sheet of a resource whose rows are answers.
func sheetOf[P record](resource string, t *table[P]) *sheet {
	s := sheet{resource: resource, table: t.name, keys: []sheetKey{{"id", typeText}}}
	s.columns = append(s.columns, sheetColumn{name: "position", typ: typeBigint})
	if t.flag != "" {
		s.columns = append(s.columns, sheetColumn{name: t.flag, typ: typeBoolean})
	}
	for _, c := range t.columns {
		s.columns = append(s.columns, sheetColumn{name: c.name, typ: typeText})
	}
	for _, part := range t.parts {
		s.columns = append(s.columns, sheetColumn{name: part, typ: typeText, fragment: true})
	}
	s.each = func(m *memoryRows, visit func(key)) {
		t.rows(m.state).All(func(row P) { visit(key{t.meta(row).ID}) })
	}
	s.changed = func(state *domain.State, visit func(key)) {
		rows := t.rows(state)
		for _, row := range rows.Changed() {
			visit(key{t.meta(row).ID})
		}
		for _, id := range rows.Gone() {
			visit(key{id})
		}
	}
	s.place = func(m *memoryRows, k key) int64 {
		var none P
		if row := t.rows(m.state).Get(k[0]); row != none {
			return t.meta(row).Position
		}
		return 0
	}
	s.image = func(m *memoryRows, k key, v []string) bool {
		row := t.rows(m.state).Get(k[0])
		var none P
		if row == none {
			return false
		}
		v[0] = strconv.FormatInt(t.meta(row).Position, 10)
		n := 1
		if t.flag != "" {
			v[n] = strconv.FormatBool(t.flagOf(row))
			n++
		}
		for _, c := range t.columns {
			v[n] = c.of(row)
			n++
		}
		f := row.Fragments()
		copy(v[n:], []string{f.Base, f.Pay, f.Margin}[:len(t.parts)])
		return true
	}
	return s.prepared()
}

func creditMoveSheet(named naming) *sheet {
	return sheet{
		resource: "credit", table: named("credit_move"),
		keys:    []sheetKey{{"client_id", typeText}, {"id", typeText}},
		columns: []sheetColumn{{name: "position", typ: typeBigint}, {name: "base", typ: typeText, fragment: true}},
		each: func(m *memoryRows, visit func(key)) {
			m.state.CreditMoves.All(func(c *domain.CreditMove) { visit(key{c.ClientID, c.CreditID}) })
		},
		changed: func(s *domain.State, visit func(key)) {
			for _, m := range s.CreditMoves.Changed() {
				visit(key{m.ClientID, m.CreditID})
			}
		},
		image: func(m *memoryRows, k key, v []string) bool {
			c := m.state.CreditMoves.Get(domain.CreditMoveKey(k[0], k[1]))
			if c == nil {
				return false
			}
			v[0], v[1] = strconv.FormatInt(c.Position, 10), c.Fragments().Base
			return true
		},
	}.prepared()
}

func closedPeriodSheet(named naming) *sheet {
	return sheet{
		resource: sheetClosedPeriods, table: named("closed_period"),
		keys:    []sheetKey{{"period", typeText}, {"client_id", typeText}},
		columns: []sheetColumn{{name: "position", typ: typeBigint}},
		each: func(m *memoryRows, visit func(key)) {
			m.state.Closures.All(func(c *domain.ClosedPeriod) { visit(key{c.Period, c.ClientID}) })
		},
		changed: func(s *domain.State, visit func(key)) {
			for _, c := range s.Closures.Changed() {
				visit(key{c.Period, c.ClientID})
			}
		},
		image: func(m *memoryRows, k key, v []string) bool {
			c := m.state.Closures.Get(domain.ClosedPeriodKey(k[0], k[1]))
			if c == nil {
				return false
			}
			v[0] = strconv.FormatInt(c.Position, 10)
			return true
		},
	}.prepared()
}

func anomalySheet(named naming) *sheet {
	find := func(m *memoryRows, k key) int {
		return slices.IndexFunc(m.anomaliesAt(k[0]), func(a domain.Anomaly) bool { return string(a.Reason) == k[1] })
	}
	return sheet{
		resource: sheetAnomalies, table: named("anomaly"),
		keys:    []sheetKey{{"position", typeBigint}, {"reason", typeText}},
		columns: []sheetColumn{{name: "event_id", typ: typeText}},
		each: func(m *memoryRows, visit func(key)) {
			for _, a := range m.anomalies {
				visit(key{padded(a.Position), string(a.Reason)})
			}
		},
		changed: func(s *domain.State, visit func(key)) {
			for _, a := range s.Anomalies {
				visit(key{padded(a.Position), string(a.Reason)})
			}
		},
		image: func(m *memoryRows, k key, v []string) bool {
			i := find(m, k)
			if i < 0 {
				return false
			}
			v[0] = m.anomaliesAt(k[0])[i].EventID
			return true
		},
	}.prepared()
}
