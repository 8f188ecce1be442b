package domain

// State is the fold of a workspace's log up to Position. It holds all read rows or, for a segment,
// at least the rows that the segment's Needs list. Only one goroutine may use it.
type State struct {
	Position    int64
	Invoices    Table[Invoice, *Invoice]
	Charges     Table[Charge, *Charge]
	TimeEntries Table[TimeEntry, *TimeEntry]
	Payments    Table[Payment, *Payment]
	Clients     Table[Client, *Client]
	Contractors Table[Contractor, *Contractor]
	Credits     Table[Credit, *Credit]             // by client id
	CreditMoves Table[CreditMove, *CreditMove]     // by CreditMoveKey
	Closures    Table[ClosedPeriod, *ClosedPeriod] // by ClosedPeriodKey

	// Tombstones of the rows that have left the lists, by row id. A charge leaves the lists of keys
	// with pay:read when it is deleted (RemovedCharges), and the lists of other keys also when it
	// is no longer billed to the client (RemovedBilledCharges).
	RemovedTimeEntries, RemovedCharges, RemovedBilledCharges Table[Tombstone, *Tombstone]

	Anomalies []Anomaly // since the last Reset

	// NoteMass makes entries record in Mass what they do to rows that they do not name. Set it if
	// the State does not hold all of those rows.
	NoteMass bool
	Mass     []MassChange // since the last Reset; apply them in this order
}

// ResourceCreditHistory names the rows of the history of credits in a MassChange.
const ResourceCreditHistory = "credit-history"

// NewState returns the fold of an empty log.
func NewState() *State {
	s := &State{}
	s.Invoices.resource, s.Invoices.fields = "invoices", invoiceFields
	s.Charges.resource, s.Charges.fields = "charges", chargeFields
	s.TimeEntries.resource, s.TimeEntries.fields = "time-entries", timeEntryFields
	s.Payments.resource, s.Payments.fields = "payments", paymentFields
	s.CreditMoves.resource, s.CreditMoves.fields = ResourceCreditHistory, creditMoveFields
	s.CreditMoves.keys = [relations]func(*CreditMove) string{
		byClient: func(r *CreditMove) string { return r.ClientID },
	}
	s.Invoices.keys = [relations]func(*Invoice) string{
		byClient:     func(r *Invoice) string { return r.Client.ID },
		byContractor: func(r *Invoice) string { return r.Contractor.ID },
		byPeriod:     func(r *Invoice) string { return r.Period },
	}
	s.Charges.keys = [relations]func(*Charge) string{
		byClient:     func(r *Charge) string { return r.Client.ID },
		byContractor: func(r *Charge) string { return r.Contractor.ID },
		byInvoice:    func(r *Charge) string { return r.InvoiceID },
	}
	s.TimeEntries.keys = [relations]func(*TimeEntry) string{
		byClient:     func(r *TimeEntry) string { return r.Client.ID },
		byContractor: func(r *TimeEntry) string { return r.Contractor.ID },
		byInvoice:    func(r *TimeEntry) string { return r.InvoiceID },
	}
	s.Payments.keys = [relations]func(*Payment) string{
		byClient:     func(r *Payment) string { return r.Client.ID },
		byContractor: func(r *Payment) string { return r.Contractor.ID },
	}
	return s
}

// Reset clears the record of changes. Call it after a store has saved them.
func (s *State) Reset() {
	s.Invoices.Reset()
	s.Charges.Reset()
	s.TimeEntries.Reset()
	s.Payments.Reset()
	s.Clients.Reset()
	s.Contractors.Reset()
	s.Credits.Reset()
	s.CreditMoves.Reset()
	s.Closures.Reset()
	s.RemovedTimeEntries.Reset()
	s.RemovedCharges.Reset()
	s.RemovedBilledCharges.Reset()
	s.Anomalies, s.Mass = nil, nil
}

// Reason says why an entry could not have its effect (docs/contract/log.md, "A
// fold that never stops").
type Reason string

// The reasons.
const (
	UnknownObject   Reason = "unknown_object"
	Repeat          Reason = "repeat"
	Overdrawn       Reason = "overdrawn"
	UnknownDocument Reason = "unknown_document"
	WrongKind       Reason = "wrong_kind"
	WrongCurrency   Reason = "wrong_currency"
	Unreadable      Reason = "unreadable"
)

// Reasons returns all reasons, in the order of docs/contract/log.md, "A fold that
// never stops".
func Reasons() []Reason {
	return []Reason{UnknownObject, Repeat, Overdrawn, UnknownDocument, WrongKind, WrongCurrency, Unreadable}
}

// Anomaly is an entry without its full effect. It is kept and counted, and never stops the fold.
type Anomaly struct {
	Position int64
	EventID  string
	Reason   Reason
}

// fold applies one entry to a State. An effect is a function of a fold and the entry's data.
type fold struct {
	stamp
	*State
	eventID string
}

// anomaly records why the entry could not have its full effect, each reason at most once.
func (f *fold) anomaly(reason Reason) {
	for i := len(f.Anomalies) - 1; i >= 0 && f.Anomalies[i].Position == f.position; i-- {
		if f.Anomalies[i].Reason == reason {
			return
		}
	}
	f.Anomalies = append(f.Anomalies, Anomaly{Position: f.position, EventID: f.eventID, Reason: reason})
}

// client returns a reference to a client, with its current name.
func (f *fold) client(id string) Party {
	p := Party{ID: id}
	if c := f.Clients.Get(id); c != nil {
		p.Name = c.Name
	}
	return p
}

// contractor returns a reference to a contractor, with its current name.
func (f *fold) contractor(id string) Party {
	p := Party{ID: id}
	if c := f.Contractors.Get(id); c != nil {
		p.Name = c.Name
	}
	return p
}

// rename writes a party's new name into every row that refers to it. rel is byClient or
// byContractor.
func rename(f *fold, rel relation, id, name string) {
	field := "client"
	if rel == byContractor {
		field = "contractor"
	}
	renamed := change{of: []reference{{rel, id}}, set: []value{{field, Party{ID: id, Name: name}}}}
	changeAll(f, &f.Invoices, renamed)
	changeAll(f, &f.Charges, renamed)
	changeAll(f, &f.TimeEntries, renamed)
	changeAll(f, &f.Payments, renamed)
}
