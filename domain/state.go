package domain

import (
	"crypto/sha256"
	"time"
)

// Entry is one entry of the log as it is kept (docs/contract/log.md, "An entry").
type Entry struct {
	WorkspaceID string
	Position    int64
	ID          string
	Type        string
	CreatedAt   time.Time         // publish time, whole milliseconds, UTC
	Data        string            // canonical form
	Chain       [sha256.Size]byte // over everything up to and including this entry

	typ  *Type // what Data was last read as; nil before, and for an unknown type
	data *Data // Data as values; nil before, and where it cannot be read
}

// read gives an entry's type and values, read once; ok is false where this
// version cannot read them.
func (e *Entry) read() (typ *Type, data *Data, ok bool) {
	if e.typ == nil {
		e.typ = TypeNamed(e.Type)
		if e.typ == nil {
			return nil, nil, false
		}
		e.data, _ = e.typ.decode(e.Data)
	}
	return e.typ, e.data, e.data != nil
}

// State is the fold of a workspace's log up to Position: all its read rows,
// or, for a segment, at least those that Needs names.
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
	Anomalies   []Anomaly                          // since the last Reset
}

// NewState returns the fold of an empty log.
func NewState() *State {
	s := &State{}
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

// Reset forgets what has changed: a store now has it.
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
	s.Anomalies = nil
}

// Reason says why an entry could not have its effect (docs/contract/log.md, "A fold that
// never stops").
type Reason string

// The reasons.
const (
	UnknownObject   Reason = "unknown_object"
	Repeat          Reason = "repeat"
	Overdrawn       Reason = "overdrawn"
	UnknownDocument Reason = "unknown_document"
	WrongKind       Reason = "wrong_kind"
	Unreadable      Reason = "unreadable"
)

// Reasons returns all reasons, in the order of docs/contract/log.md,
// "A fold that never stops".
func Reasons() []Reason {
	return []Reason{UnknownObject, Repeat, Overdrawn, UnknownDocument, WrongKind, Unreadable}
}

// Anomaly is an entry that could not have its effect, or not all of it. It is
// kept and counted, and never stops the fold.
type Anomaly struct {
	Position int64
	EventID  string
	Reason   Reason
}

// fold is one entry on its way into a State.
type fold struct {
	s        *State
	entry    *Entry
	position int64
	at       string // publish time in the public form
}

// Apply folds the next entry. What the entry says is read from its canonical
// form; what this version cannot read is an anomaly, not a stop.
func (s *State) Apply(e *Entry) {
	f := fold{s: s, entry: e, position: e.Position, at: FormatTime(e.CreatedAt)}
	s.Position = e.Position
	t, d, ok := e.read()
	if !ok {
		f.anomaly(Unreadable)
		return
	}
	t.effect(&f, d)
}

// anomaly notes a reason; one entry gives one anomaly of a reason at most.
func (f *fold) anomaly(reason Reason) {
	for i := len(f.s.Anomalies) - 1; i >= 0 && f.s.Anomalies[i].Position == f.position; i-- {
		if f.s.Anomalies[i].Reason == reason {
			return
		}
	}
	f.s.Anomalies = append(f.s.Anomalies, Anomaly{Position: f.position, EventID: f.entry.ID, Reason: reason})
}

func testTypes() []*Type {
	return []*Type{{
		Name: TypeTestPing, Object: "webhook", Public: true,
		object: func(d *Data) string { return d.WebhookID },
		effect: func(*fold, *Data) {},
		Fields: []Field[Data]{required(define("webhook_id", FormID, func(d *Data) any { return &d.WebhookID }))},
	}}
}
