package table

import (
	"strconv"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Set holds all read tables.
type Set struct {
	Invoices, Charges, TimeEntries, Payments *Table
	Clients, Contractors, Credits            *Table
	CreditMoves, ClosedPeriods, Anomalies    *Table

	RemovedTimeEntries, RemovedCharges, RemovedBilledCharges *Table // tombstones
}

// All lists the tables in the order in which differences are reported.
func (s *Set) All() []*Table {
	return []*Table{
		s.Invoices, s.Charges, s.TimeEntries, s.Payments, s.Clients, s.Contractors, s.Credits,
		s.CreditMoves, s.ClosedPeriods, s.Anomalies,
		s.RemovedTimeEntries, s.RemovedCharges, s.RemovedBilledCharges,
	}
}

// NewSet describes the read tables.
func NewSet() *Set { return NewSetNamed(func(name string) string { return name }) }

// NewSetNamed describes tables that are like the read tables but have other names: named maps the
// name of a read table to the new name.
func NewSetNamed(named func(name string) string) *Set {
	return &Set{
		Invoices: answers(description[domain.Invoice]{
			name: named("invoice"), resource: "invoices",
			rows:      func(f *Fold) store[*domain.Invoice] { return &f.State.Invoices },
			row:       func(r *domain.Invoice) *domain.Row { return &r.Row },
			columns:   invoiceColumns(),
			fragments: []string{"base", "pay", "margin"},
		}),
		Charges: answers(description[domain.Charge]{
			name: named("charge"), resource: "charges",
			rows: func(f *Fold) store[*domain.Charge] { return &f.State.Charges },
			row:  func(r *domain.Charge) *domain.Row { return &r.Row },
			columns: []field[domain.Charge]{
				{name: "billed", at: func(r *domain.Charge) any { return &r.BilledToClient }, hiddenBecause: "not billed to the client: shown only with pay:read"},
				{name: "client_id", at: func(r *domain.Charge) any { return &r.Client.ID }},
				{name: "contractor_id", at: func(r *domain.Charge) any { return &r.Contractor.ID }},
				{name: "invoice_id", at: func(r *domain.Charge) any { return &r.InvoiceID }},
				{name: "period", at: func(r *domain.Charge) any { return &r.Period }},
				{name: "status", at: func(r *domain.Charge) any { return &r.Status }},
				{name: "day", at: func(r *domain.Charge) any { return &r.Date }},
				{name: "currency", at: func(r *domain.Charge) any { return &r.Currency }},
				money("amount", func(r *domain.Charge) domain.Money { return r.Amount }),
				optMoney("pay_amount", func(r *domain.Charge) domain.OptMoney { return r.PayAmount }),
			},
			fragments: []string{"base", "pay"},
		}),
		TimeEntries: answers(description[domain.TimeEntry]{
			name: named("time_entry"), resource: "time-entries",
			rows: func(f *Fold) store[*domain.TimeEntry] { return &f.State.TimeEntries },
			row:  func(r *domain.TimeEntry) *domain.Row { return &r.Row },
			columns: []field[domain.TimeEntry]{
				{name: "client_id", at: func(r *domain.TimeEntry) any { return &r.Client.ID }},
				{name: "contractor_id", at: func(r *domain.TimeEntry) any { return &r.Contractor.ID }},
				{name: "invoice_id", at: func(r *domain.TimeEntry) any { return &r.InvoiceID }},
				{name: "period", at: func(r *domain.TimeEntry) any { return &r.Period }},
				{name: "status", at: func(r *domain.TimeEntry) any { return &r.Status }},
				{name: "day", at: func(r *domain.TimeEntry) any { return &r.WorkDate }},
				{name: "currency", at: func(r *domain.TimeEntry) any { return &r.Currency }},
				hours("hours", func(r *domain.TimeEntry) domain.OptDecimal { return r.Hours }),
				{name: "session_count", derived: func(r *domain.TimeEntry) string { return optional(r.SessionCount.Int, r.SessionCount.Set) }, typ: typeBigint},
				optMoney("bill_amount", func(r *domain.TimeEntry) domain.OptMoney { return r.BillAmount }),
				optMoney("pay_amount", func(r *domain.TimeEntry) domain.OptMoney { return r.PayAmount }),
			},
			fragments: []string{"base", "pay"},
		}),
		Payments: answers(description[domain.Payment]{
			name: named("payment"), resource: "payments",
			rows: func(f *Fold) store[*domain.Payment] { return &f.State.Payments },
			row:  func(r *domain.Payment) *domain.Row { return &r.Row },
			columns: []field[domain.Payment]{
				{name: "direction", at: func(r *domain.Payment) any { return &r.Direction }},
				{name: "client_id", at: func(r *domain.Payment) any { return &r.Client.ID }},
				{name: "contractor_id", at: func(r *domain.Payment) any { return &r.Contractor.ID }},
				{name: "invoice_id", at: func(r *domain.Payment) any { return &r.InvoiceID }},
				{name: "day", derived: (*domain.Payment).Day, typ: typeText},
				{name: "currency", at: func(r *domain.Payment) any { return &r.Currency }},
				money("amount", func(r *domain.Payment) domain.Money { return r.Amount }),
			},
			fragments: []string{"base"},
		}),
		Clients: answers(description[domain.Client]{
			name: named("client"), resource: "clients",
			rows:      func(f *Fold) store[*domain.Client] { return &f.State.Clients },
			row:       func(r *domain.Client) *domain.Row { return &r.Row },
			fragments: []string{"base"},
		}),
		Contractors: answers(description[domain.Contractor]{
			name: named("contractor"), resource: "contractors",
			rows:      func(f *Fold) store[*domain.Contractor] { return &f.State.Contractors },
			row:       func(r *domain.Contractor) *domain.Row { return &r.Row },
			fragments: []string{"base"},
		}),
		Credits: answers(description[domain.Credit]{ // the id is the client's
			name: named("client_credit"), resource: "credit",
			rows:      func(f *Fold) store[*domain.Credit] { return &f.State.Credits },
			row:       func(r *domain.Credit) *domain.Row { return &r.Row },
			fragments: []string{"base"},
		}),
		CreditMoves:   creditMoves(named("credit_move")),
		ClosedPeriods: closedPeriods(named("closed_period")),
		Anomalies:     anomalyTable(named("anomaly")),
		RemovedTimeEntries: tombstones(named("removed_time_entry"), "time-entries",
			func(f *Fold) store[*domain.Tombstone] { return &f.State.RemovedTimeEntries },
			field[domain.Tombstone]{name: "status", at: func(r *domain.Tombstone) any { return &r.Status }}),
		RemovedCharges: tombstones(named("removed_charge"), "charges",
			func(f *Fold) store[*domain.Tombstone] { return &f.State.RemovedCharges }),
		RemovedBilledCharges: tombstones(named("removed_billed_charge"), "charges",
			func(f *Fold) store[*domain.Tombstone] { return &f.State.RemovedBilledCharges }),
	}
}

// invoiceColumns are the columns of invoices.
func invoiceColumns() []field[domain.Invoice] {
	return []field[domain.Invoice]{
		{name: "shown", at: func(r *domain.Invoice) any { return &r.Shown }, loaded: true, hiddenBecause: "a draft: no reader sees it"},
		{name: "client_id", at: func(r *domain.Invoice) any { return &r.Client.ID }},
		{name: "contractor_id", at: func(r *domain.Invoice) any { return &r.Contractor.ID }},
		{name: "period", at: func(r *domain.Invoice) any { return &r.Period }},
		{name: "status", at: func(r *domain.Invoice) any { return &r.ClientBillingStatus }},
		{name: "type", at: func(r *domain.Invoice) any { return &r.Type }},
		{name: "number", at: func(r *domain.Invoice) any { return &r.Number }},
		{name: "reversed", at: func(r *domain.Invoice) any { return &r.Reversed }},
		{name: "open", derived: func(r *domain.Invoice) string { return strconv.FormatBool(r.Open()) }, typ: typeBoolean},
		{name: "day", derived: func(r *domain.Invoice) string { first, _ := r.Days(); return first }, typ: typeText},
		{name: "last_day", derived: func(r *domain.Invoice) string { _, last := r.Days(); return last }, typ: typeText},
		{name: "currency", at: func(r *domain.Invoice) any { return &r.Currency }},
		money("gross_amount", func(r *domain.Invoice) domain.Money { return r.GrossAmount }),
		{name: "credit_applied", derived: func(r *domain.Invoice) string { return r.CreditApplied.Hundredths() }, typ: typeNumeric},
		money("net_due", func(r *domain.Invoice) domain.Money { return r.NetDue }),
		optMoney("delivered_value", func(r *domain.Invoice) domain.OptMoney { return r.DeliveredValue }),
		optMoney("recognized_revenue", func(r *domain.Invoice) domain.OptMoney { return r.RecognizedRevenue }),
		hours("billable_hours", func(r *domain.Invoice) domain.OptDecimal { return r.BillableHours }),
		optMoney("payout_amount", func(r *domain.Invoice) domain.OptMoney { return r.PayoutAmount }),
		optMoney("margin_amount", func(r *domain.Invoice) domain.OptMoney { return r.MarginAmount }),
	}
}

// money is a column with an amount in hundredths.
func money[R any](name string, of func(*R) domain.Money) field[R] {
	return field[R]{name: name, derived: func(r *R) string { return strconv.FormatInt(int64(of(r)), 10) }, typ: typeBigint}
}

// optMoney is a column with an amount in hundredths that may be absent.
func optMoney[R any](name string, of func(*R) domain.OptMoney) field[R] {
	return field[R]{name: name, derived: func(r *R) string {
		m := of(r)
		return optional(int64(m.Money), m.Set)
	}, typ: typeBigint}
}

// hours is a column with a number in ten-thousandths that may be absent.
func hours[R any](name string, of func(*R) domain.OptDecimal) field[R] {
	return field[R]{name: name, derived: func(r *R) string {
		d := of(r)
		return optional(int64(d.Decimal), d.Set)
	}, typ: typeBigint}
}

func optional(n int64, set bool) string {
	if !set {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// tombstones describes the rows that have left a resource. They are rebuilt with it.
func tombstones(name, resource string, rows func(*Fold) store[*domain.Tombstone], more ...field[domain.Tombstone]) *Table {
	t := answers(description[domain.Tombstone]{
		name: name, resource: resource,
		rows: rows,
		row:  func(r *domain.Tombstone) *domain.Row { return &r.Row },
		columns: append([]field[domain.Tombstone]{
			{name: "client_id", at: func(r *domain.Tombstone) any { return &r.ClientID }},
			{name: "contractor_id", at: func(r *domain.Tombstone) any { return &r.ContractorID }},
			{name: "period", at: func(r *domain.Tombstone) any { return &r.Period }},
			{name: "day", at: func(r *domain.Tombstone) any { return &r.Day }},
		}, more...),
		fragments: []string{"base"},
	})
	t.Label, t.tombstones = "removed "+resource, true
	return t
}

// creditMoves describes the credit history. The fold asks only whether a credit id is taken, so it
// loads only the key and position of a row.
func creditMoves(name string) *Table {
	return describe(description[domain.CreditMove]{
		name: name, label: "credit", resource: "credit", appendOnly: true,
		rows:  func(f *Fold) store[*domain.CreditMove] { return &f.State.CreditMoves },
		row:   func(r *domain.CreditMove) *domain.Row { return &r.Row },
		rowID: func(k Key) string { return domain.CreditMoveKey(k[0], k[1]) },
		keys: []field[domain.CreditMove]{
			{name: "client_id", at: func(r *domain.CreditMove) any { return &r.ClientID }},
			{name: "id", at: func(r *domain.CreditMove) any { return &r.CreditID }},
		},
		fragments: []string{"base"}, render: (*domain.CreditMove).Fragments,
	})
}

// closedPeriods describes the closed periods. They belong to the invoices: nothing else shows that
// a period is closed.
func closedPeriods(name string) *Table {
	return describe(description[domain.ClosedPeriod]{
		name: name, label: "closed-periods", resource: "invoices", appendOnly: true,
		rows:  func(f *Fold) store[*domain.ClosedPeriod] { return &f.State.Closures },
		row:   func(r *domain.ClosedPeriod) *domain.Row { return &r.Row },
		rowID: func(k Key) string { return domain.ClosedPeriodKey(k[0], k[1]) },
		keys: []field[domain.ClosedPeriod]{
			{name: "period", at: func(r *domain.ClosedPeriod) any { return &r.Period }},
			{name: "client_id", at: func(r *domain.ClosedPeriod) any { return &r.ClientID }},
		},
	})
}

// anomalyTable describes the anomalies, which no resource shows. Nothing loads them.
func anomalyTable(name string) *Table {
	return describe(description[domain.Anomaly]{
		name: name, label: "anomalies", appendOnly: true,
		rows:     func(f *Fold) store[*domain.Anomaly] { return anomalies{f} },
		rowID:    anomalyID,
		position: func(a *domain.Anomaly) *int64 { return &a.Position },
		keys: []field[domain.Anomaly]{
			{name: "position", at: func(a *domain.Anomaly) any { return &a.Position }},
			{name: "reason", at: func(a *domain.Anomaly) any { return (*string)(&a.Reason) }},
		},
		columns: []field[domain.Anomaly]{{name: "event_id", at: func(a *domain.Anomaly) any { return &a.EventID }}},
	})
}
