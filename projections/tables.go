package projections

import "github.com/ledgerfeed/ledgerfeed/domain"

// naming tells what a read table is called: by its own name, or as one that is
// like it.
type naming func(table string) string

func byItsName(table string) string { return table }

// tables are the read tables whose rows are answers.
type tables struct {
	named       naming // for the others
	invoices    *table[*domain.Invoice]
	charges     *table[*domain.Charge]
	timeEntries *table[*domain.TimeEntry]
	payments    *table[*domain.Payment]
	clients     *table[*domain.Client]
	contractors *table[*domain.Contractor]
	credits     *table[*domain.Credit]
}

func newTables(named naming) *tables {
	return &tables{
		named: named,
		invoices: table[*domain.Invoice]{
			name:     named("invoice"),
			rows:     func(s *domain.State) rows[*domain.Invoice] { return &s.Invoices },
			fresh:    func() *domain.Invoice { return &domain.Invoice{} },
			meta:     func(r *domain.Invoice) *domain.Row { return &r.Row },
			parts:    []string{"base", "pay", "margin"},
			flag:     "shown",
			flagOf:   func(r *domain.Invoice) bool { return r.Shown },
			loadFlag: func(r *domain.Invoice, shown bool) { r.Shown = shown },
			columns: []column[*domain.Invoice]{
				{"client_id", func(r *domain.Invoice) string { return r.Client.ID }},
				{"contractor_id", func(r *domain.Invoice) string { return r.Contractor.ID }},
				{"period", func(r *domain.Invoice) string { return r.Period }},
				{"status", func(r *domain.Invoice) string { return r.ClientBillingStatus }},
				{"type", func(r *domain.Invoice) string { return r.Type }},
			},
		}.prepared(),
		charges: table[*domain.Charge]{
			name:     named("charge"),
			rows:     func(s *domain.State) rows[*domain.Charge] { return &s.Charges },
			fresh:    func() *domain.Charge { return &domain.Charge{} },
			meta:     func(r *domain.Charge) *domain.Row { return &r.Row },
			parts:    []string{"base", "pay"},
			flag:     "billed",
			flagOf:   func(r *domain.Charge) bool { return r.BilledToClient },
			loadFlag: func(*domain.Charge, bool) {}, // the base holds it too
			columns: []column[*domain.Charge]{
				{"client_id", func(r *domain.Charge) string { return r.Client.ID }},
				{"contractor_id", func(r *domain.Charge) string { return r.Contractor.ID }},
				{"invoice_id", func(r *domain.Charge) string { return r.InvoiceID }},
				{"period", func(r *domain.Charge) string { return r.Period }},
			},
		}.prepared(),
		timeEntries: table[*domain.TimeEntry]{
			name:  named("time_entry"),
			rows:  func(s *domain.State) rows[*domain.TimeEntry] { return &s.TimeEntries },
			fresh: func() *domain.TimeEntry { return &domain.TimeEntry{} },
			meta:  func(r *domain.TimeEntry) *domain.Row { return &r.Row },
			parts: []string{"base", "pay"},
			columns: []column[*domain.TimeEntry]{
				{"client_id", func(r *domain.TimeEntry) string { return r.Client.ID }},
				{"contractor_id", func(r *domain.TimeEntry) string { return r.Contractor.ID }},
				{"invoice_id", func(r *domain.TimeEntry) string { return r.InvoiceID }},
				{"period", func(r *domain.TimeEntry) string { return r.Period }},
				{"status", func(r *domain.TimeEntry) string { return r.Status }},
			},
		}.prepared(),
		payments: table[*domain.Payment]{
			name:  named("payment"),
			rows:  func(s *domain.State) rows[*domain.Payment] { return &s.Payments },
			fresh: func() *domain.Payment { return &domain.Payment{} },
			meta:  func(r *domain.Payment) *domain.Row { return &r.Row },
			parts: []string{"base"},
			columns: []column[*domain.Payment]{
				{"direction", func(r *domain.Payment) string { return r.Direction }},
				{"client_id", func(r *domain.Payment) string { return r.Client.ID }},
				{"contractor_id", func(r *domain.Payment) string { return r.Contractor.ID }},
			},
		}.prepared(),
		clients: table[*domain.Client]{
			name:  named("client"),
			rows:  func(s *domain.State) rows[*domain.Client] { return &s.Clients },
			fresh: func() *domain.Client { return &domain.Client{} },
			meta:  func(r *domain.Client) *domain.Row { return &r.Row },
			parts: []string{"base"},
		}.prepared(),
		contractors: table[*domain.Contractor]{
			name:  named("contractor"),
			rows:  func(s *domain.State) rows[*domain.Contractor] { return &s.Contractors },
			fresh: func() *domain.Contractor { return &domain.Contractor{} },
			meta:  func(r *domain.Contractor) *domain.Row { return &r.Row },
			parts: []string{"base"},
		}.prepared(),
		credits: table[*domain.Credit]{
			name:  named("client_credit"),
			rows:  func(s *domain.State) rows[*domain.Credit] { return &s.Credits },
			fresh: func() *domain.Credit { return &domain.Credit{} },
			meta:  func(r *domain.Credit) *domain.Row { return &r.Row },
			parts: []string{"base"},
		}.prepared(),
	}
}
