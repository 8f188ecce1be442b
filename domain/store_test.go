package domain_test

import (
	"maps"
	"slices"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// store keeps read rows as a database does: as fragments, beside the columns
// through which a segment reaches them. It mirrors what a projector does with
// Needs, and knows nothing else of the fold.
type store struct {
	tables    map[string]map[string]storedRow // by resource, then id
	anomalies []domain.Anomaly
}

// storedRow is a row of the store.
type storedRow struct {
	parts    domain.Fragments
	position int64
	shown    bool // of an invoice
	// The columns it is reached by.
	client, contractor, invoice, period, status string
}

func newStore() *store { return &store{tables: map[string]map[string]storedRow{}} }

// stored is a record that a store can keep.
type stored interface {
	Fragments() domain.Fragments
	Read(f domain.Fragments) error
}

// rowsOf is one table of a State.
type rowsOf[P any] interface {
	Load(r P)
	Changed() []P
	Gone() []string
}

// resource says how one table of a State is kept.
type resource[P stored] struct {
	name    string
	rows    func(*domain.State) rowsOf[P]
	fresh   func() P
	meta    func(P) *domain.Row
	columns func(P) storedRow // without parts and position
	show    func(P, bool)
}

func invoiceRows() resource[*domain.Invoice] {
	return resource[*domain.Invoice]{
		"invoice", func(s *domain.State) rowsOf[*domain.Invoice] { return &s.Invoices },
		func() *domain.Invoice { return new(domain.Invoice) }, func(r *domain.Invoice) *domain.Row { return &r.Row },
		func(r *domain.Invoice) storedRow {
			return storedRow{shown: r.Shown, client: r.Client.ID, contractor: r.Contractor.ID, period: r.Period}
		},
		func(r *domain.Invoice, shown bool) { r.Shown = shown },
	}
}

func chargeRows() resource[*domain.Charge] {
	return resource[*domain.Charge]{
		"charge", func(s *domain.State) rowsOf[*domain.Charge] { return &s.Charges },
		func() *domain.Charge { return new(domain.Charge) }, func(r *domain.Charge) *domain.Row { return &r.Row },
		func(r *domain.Charge) storedRow {
			return storedRow{client: r.Client.ID, contractor: r.Contractor.ID, invoice: r.InvoiceID, period: r.Period}
		}, nil,
	}
}

func timeEntryRows() resource[*domain.TimeEntry] {
	return resource[*domain.TimeEntry]{
		"time_entry", func(s *domain.State) rowsOf[*domain.TimeEntry] { return &s.TimeEntries },
		func() *domain.TimeEntry { return new(domain.TimeEntry) }, func(r *domain.TimeEntry) *domain.Row { return &r.Row },
		func(r *domain.TimeEntry) storedRow {
			return storedRow{client: r.Client.ID, contractor: r.Contractor.ID, invoice: r.InvoiceID, period: r.Period}
		}, nil,
	}
}

func paymentRows() resource[*domain.Payment] {
	return resource[*domain.Payment]{
		"payment", func(s *domain.State) rowsOf[*domain.Payment] { return &s.Payments },
		func() *domain.Payment { return new(domain.Payment) }, func(r *domain.Payment) *domain.Row { return &r.Row },
		func(r *domain.Payment) storedRow {
			return storedRow{client: r.Client.ID, contractor: r.Contractor.ID}
		}, nil,
	}
}

func clientRows() resource[*domain.Client] {
	return resource[*domain.Client]{
		"client", func(s *domain.State) rowsOf[*domain.Client] { return &s.Clients },
		func() *domain.Client { return new(domain.Client) }, func(r *domain.Client) *domain.Row { return &r.Row },
		func(*domain.Client) storedRow { return storedRow{} }, nil,
	}
}

func contractorRows() resource[*domain.Contractor] {
	return resource[*domain.Contractor]{
		"contractor", func(s *domain.State) rowsOf[*domain.Contractor] { return &s.Contractors },
		func() *domain.Contractor { return new(domain.Contractor) }, func(r *domain.Contractor) *domain.Row { return &r.Row },
		func(*domain.Contractor) storedRow { return storedRow{} }, nil,
	}
}

func creditRows() resource[*domain.Credit] {
	return resource[*domain.Credit]{
		"credit", func(s *domain.State) rowsOf[*domain.Credit] { return &s.Credits },
		func() *domain.Credit { return new(domain.Credit) }, func(r *domain.Credit) *domain.Row { return &r.Row },
		func(*domain.Credit) storedRow { return storedRow{} }, nil,
	}
}

func creditMoveRows() resource[*domain.CreditMove] {
	return resource[*domain.CreditMove]{
		"credit_move", func(s *domain.State) rowsOf[*domain.CreditMove] { return &s.CreditMoves },
		func() *domain.CreditMove { return new(domain.CreditMove) }, func(r *domain.CreditMove) *domain.Row { return &r.Row },
		func(r *domain.CreditMove) storedRow { return storedRow{client: r.ClientID} }, nil,
	}
}

// tombstoneRows are those of one of the three tables of rows that have left.
func tombstoneRows(name string, rows func(*domain.State) rowsOf[*domain.Tombstone]) resource[*domain.Tombstone] {
	return resource[*domain.Tombstone]{
		name, rows,
		func() *domain.Tombstone { return new(domain.Tombstone) }, func(r *domain.Tombstone) *domain.Row { return &r.Row },
		func(r *domain.Tombstone) storedRow {
			return storedRow{client: r.ClientID, contractor: r.ContractorID, period: r.Period, status: r.Status}
		}, nil,
	}
}

func removedTimeEntries() resource[*domain.Tombstone] {
	return tombstoneRows("removed_time_entry", func(s *domain.State) rowsOf[*domain.Tombstone] { return &s.RemovedTimeEntries })
}

func removedCharges() resource[*domain.Tombstone] {
	return tombstoneRows("removed_charge", func(s *domain.State) rowsOf[*domain.Tombstone] { return &s.RemovedCharges })
}

func removedBilledCharges() resource[*domain.Tombstone] {
	return tombstoneRows("removed_billed_charge", func(s *domain.State) rowsOf[*domain.Tombstone] { return &s.RemovedBilledCharges })
}

// load reads the rows that match from the store into a State.
func (r resource[P]) load(t failer, st *store, s *domain.State, match func(id string, row storedRow) bool) {
	t.Helper()
	for id, row := range st.tables[r.name] {
		if !match(id, row) {
			continue
		}
		p := r.fresh()
		if err := p.Read(row.parts); err != nil {
			t.Fatalf("%s %s cannot be read back from %s: %v", r.name, id, row.parts.Row(), err)
		}
		if again := p.Fragments(); again != row.parts {
			t.Fatalf("%s %s\nread back %s\nwas %s", r.name, id, again.Row(), row.parts.Row())
		}
		r.meta(p).ID, r.meta(p).Position = id, row.position
		if r.show != nil {
			r.show(p, row.shown)
		}
		r.rows(s).Load(p)
	}
}

// save writes back what a fold has changed, and checks that Stored and Gone agree
// with what the store has.
func (r resource[P]) save(t failer, st *store, s *domain.State) {
	t.Helper()
	table := st.tables[r.name]
	if table == nil {
		table = map[string]storedRow{}
		st.tables[r.name] = table
	}
	for _, id := range r.rows(s).Gone() {
		if _, has := table[id]; !has {
			t.Errorf("%s %s is to be deleted, but the store never had it", r.name, id)
		}
		delete(table, id)
	}
	seen := map[string]bool{}
	for _, p := range r.rows(s).Changed() {
		meta := r.meta(p)
		if seen[meta.ID] {
			t.Errorf("%s %s changed twice in one segment", r.name, meta.ID)
		}
		seen[meta.ID] = true
		if _, has := table[meta.ID]; has != meta.Stored() {
			t.Errorf("%s %s: Stored says %v, the store has it: %v", r.name, meta.ID, meta.Stored(), has)
		}
		row := r.columns(p)
		row.parts, row.position = p.Fragments(), meta.Position
		table[meta.ID] = row
	}
}

// fold folds a segment through the store: it loads the rows that the segment
// needs and no others.
func (st *store) fold(t failer, segment []domain.Entry) {
	t.Helper()
	for i := range segment {
		var n domain.Needs
		if n.Add(&segment[i]); n.Forgotten { // a projector always makes a mass change of it
			st.fold(t, segment[:i])
			st.foldAlone(t, &segment[i])
			st.fold(t, segment[i+1:])
			return
		}
	}
	s := st.load(t, segment, true)
	for i := range segment {
		s.Apply(&segment[i])
	}
	st.save(t, s)
}

// load loads the rows that a segment needs: those that its entries name, and with
// mass also those that they reach without naming them.
func (st *store) load(t failer, segment []domain.Entry, mass bool) *domain.State {
	t.Helper()
	var n domain.Needs
	for i := range segment {
		n.Add(&segment[i])
	}
	if !mass {
		n.MassEffects = domain.MassEffects{}
	}
	s := domain.NewState()
	has := func(set domain.Set, id string) bool { _, ok := set[id]; return ok }
	renamed := func(names map[string]string, table string) domain.Set {
		list := domain.Set{}
		for id, recorded := range names {
			shown := ""
			if row, has := st.tables[table][id]; has {
				shown, _ = parseDoc(row.parts.Row())["name"].(string)
			}
			if domain.Renamed(recorded, shown) {
				list[id] = struct{}{}
			}
		}
		return list
	}
	clients, contractors := renamed(n.ClientNames, "client"), renamed(n.ContractorNames, "contractor")
	refers := func(r storedRow) bool { return has(clients, r.client) || has(contractors, r.contractor) }

	invoiceRows().load(t, st, s, func(id string, r storedRow) bool {
		return has(n.Invoices, id) || has(n.InvoicesIn, r.period) || refers(r)
	})
	chargeRows().load(t, st, s, func(id string, r storedRow) bool {
		return has(n.Charges, id) || has(n.LinesOf, r.invoice) || refers(r)
	})
	timeEntryRows().load(t, st, s, func(id string, r storedRow) bool {
		return has(n.TimeEntries, id) || has(n.LinesOf, r.invoice) || refers(r)
	})
	paymentRows().load(t, st, s, func(id string, r storedRow) bool { return has(n.Payments, id) || refers(r) })
	clientRows().load(t, st, s, func(id string, _ storedRow) bool { return has(n.Clients, id) })
	contractorRows().load(t, st, s, func(id string, _ storedRow) bool { return has(n.Contractors, id) })
	creditRows().load(t, st, s, func(id string, _ storedRow) bool { return has(n.Credits, id) })
	creditMoveRows().load(t, st, s, func(id string, _ storedRow) bool { return has(n.CreditMoves, id) })
	removedTimeEntries().load(t, st, s, func(id string, _ storedRow) bool { return has(n.RemovedTimeEntries, id) })
	removedCharges().load(t, st, s, func(id string, _ storedRow) bool { return has(n.RemovedCharges, id) })
	removedBilledCharges().load(t, st, s, func(id string, _ storedRow) bool { return has(n.RemovedCharges, id) })
	for id, r := range st.tables["closure"] {
		if has(n.Periods, r.period) {
			s.Closures.Load(&domain.ClosedPeriod{Row: domain.Row{ID: id, Position: r.position}, Period: r.period, ClientID: r.client})
		}
	}
	return s
}

// save takes everything that a State has changed since its last Reset.
func (st *store) save(t failer, s *domain.State) {
	t.Helper()
	invoiceRows().save(t, st, s)
	chargeRows().save(t, st, s)
	timeEntryRows().save(t, st, s)
	paymentRows().save(t, st, s)
	clientRows().save(t, st, s)
	contractorRows().save(t, st, s)
	creditRows().save(t, st, s)
	creditMoveRows().save(t, st, s)
	removedTimeEntries().save(t, st, s)
	removedCharges().save(t, st, s)
	removedBilledCharges().save(t, st, s)
	if st.tables["closure"] == nil {
		st.tables["closure"] = map[string]storedRow{}
	}
	for _, r := range s.Closures.Changed() {
		st.tables["closure"][r.ID] = storedRow{position: r.Position, client: r.ClientID, period: r.Period}
	}
	st.anomalies = append(st.anomalies, s.Anomalies...)
}

// equal compares two stores byte by byte.
func (st *store) equal(t failer, want *store, what string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want.tables)) {
		got := maps.Clone(st.tables[name])
		for _, id := range sortedKeys(want.tables[name]) {
			w, g := want.tables[name][id], got[id]
			delete(got, id)
			if g != w {
				t.Errorf("%s: %s %s\n got %+v\nwant %+v", what, name, id, g, w)
			}
		}
		for id, extra := range got {
			t.Errorf("%s: %s %s should not be there: %+v", what, name, id, extra)
		}
	}
	if !slices.Equal(st.anomalies, want.anomalies) {
		t.Errorf("%s: anomalies\n got %v\nwant %v", what, st.anomalies, want.anomalies)
	}
}
