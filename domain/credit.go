package domain

import (
	"cmp"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// Credit is a row of /v1/credits: a client's credit without its history. Its Row.ID is the client's
// id.
type Credit struct {
	Row
	Client   Party
	General  MoneyTotal
	Currency string
	Packages []Package
}

// Package is a prepaid package.
type Package struct {
	ID, Service       string
	AmountGranted     Money
	AmountRemaining   MoneyTotal
	HoursRemaining    OptDecimalTotal
	ExpiresAt, Status string
}

// CreditMove is a row of a client's credit history. Its Row.ID is CreditMoveKey(ClientID,
// CreditID).
type CreditMove struct {
	Row
	ClientID, CreditID             string
	Date, Kind                     string
	Amount                         MoneyTotal // the sum of many entries if a package expires
	InvoiceID, InvoiceNumber, Note string
}

// CreditMoveKey returns the id of a history row in a State: credit ids are unique only within a
// client.
func CreditMoveKey(clientID, creditID string) string { return clientID + "/" + creditID }

// SplitCreditMoveKey is the reverse of CreditMoveKey.
func SplitCreditMoveKey(key string) (clientID, creditID string) {
	clientID, creditID, _ = strings.Cut(key, "/") // an id holds no slash
	return clientID, creditID
}

// The states of a package, and the kinds of history rows. A top-up may name a
// kind of its own.
const (
	packageActive  = "active"
	packageUsedUp  = "used_up"
	packageExpired = "expired"

	moveTopUp     = "top_up"
	moveApplied   = "applied"
	moveTakenBack = "taken_back"
	moveExpired   = "expired"
)

// balance adds up the general credit and what remains in active packages.
func (c *Credit) balance() MoneyTotal {
	sum := c.General.total
	for i := range c.Packages {
		if c.Packages[i].Status == packageActive {
			sum = sum.plus(c.Packages[i].AmountRemaining.total)
		}
	}
	return MoneyTotal{sum}
}

// pack returns the package with this id, or nil if the client has none.
func (c *Credit) pack(id string) *Package {
	for i := range c.Packages {
		if c.Packages[i].ID == id {
			return &c.Packages[i]
		}
	}
	return nil
}

var (
	packageFields = jsonform.Define([]jsonform.Field[Package]{
		{Name: "id", Form: FormID, Example: `"pk_10"`, Doc: "Id of the package in its workspace.", At: func(r *Package) any { return &r.ID }},
		{Name: "service", Form: FormText, Example: `"Occupational therapy"`, Doc: "Service that the package can pay for.", At: func(r *Package) any { return &r.Service }},
		{Name: "amount_granted", Form: FormMoney, Example: `"1200.00"`, Doc: "Amount that the package had at first.", At: func(r *Package) any { return &r.AmountGranted }},
		{Name: "amount_remaining", Form: FormMoney, Example: `"480.00"`, Doc: "Amount that is left.", At: func(r *Package) any { return &r.AmountRemaining }},
		{Name: "hours_remaining", Form: FormHours, Nullable: true, Example: `4`, Doc: "Hours that are left; null in a package that counts amounts alone.", At: func(r *Package) any { return &r.HoursRemaining }},
		{Name: "expires_at", Form: FormDate, Nullable: true, Example: `"2027-01-31"`, Doc: "Last day on which it can be used; null when it does not end. Nothing happens by itself after this day: the status changes when the workspace records the expiry.", At: func(r *Package) any { return &r.ExpiresAt }},
		{Name: "status", Form: FormEnum, Values: []string{packageActive, packageUsedUp, packageExpired}, Example: `"active"`, Doc: "active; used_up when nothing is left; expired once the workspace has recorded that what was left lapsed.", At: func(r *Package) any { return &r.Status }},
	})

	// creditOwnFields are the fields that /v1/clients/{id}/credit shows.
	creditOwnFields = []jsonform.Field[Credit]{
		{Name: "balance", Form: FormMoney, Example: `"751.10"`, Doc: "general_credit and what remains in active packages. A package counts until its expiry is recorded. It is 0.00 where more was applied than there was, although the history has the whole amounts.", Derive: func(b []byte, r *Credit) []byte {
			sum := r.balance()
			return sum.AppendJSON(b)
		}},
		{Name: "general_credit", Form: FormMoney, Example: `"271.10"`, Doc: "Credit that is in no package.", At: func(r *Credit) any { return &r.General }},
		{Name: "currency", Form: FormCurrency, Nullable: true, Example: `"EUR"`, Doc: "That of the first top-up, which all others share; null until there is one.", At: func(r *Credit) any { return &r.Currency }},
		{Name: "packages", Form: FormArray, Doc: "Prepaid packages, in the order in which they were added.", At: func(r *Credit) any { return jsonform.ArrayOf(&r.Packages, packageFields) }},
	}

	creditFields = jsonform.Define(
		[]jsonform.Field[Credit]{
			{Name: "client", Form: FormObject, Example: `{"id":"cl_4821","name":"Northwind Clinic"}`, Doc: "Whose credit it is.", At: func(r *Credit) any { return &r.Client }},
		},
		creditOwnFields,
		[]jsonform.Field[Credit]{
			{Name: "updated_at", Form: FormDateTime, Example: `"2026-10-02T09:15:00.120Z"`, Doc: "Publish time of the last entry that changed the row; lists are in this order.", At: func(r *Credit) any { return &r.UpdatedAt }},
		},
	)

	creditMoveFields = jsonform.Define([]jsonform.Field[CreditMove]{
		{Name: "id", Form: FormID, Example: `"cr_135"`, Doc: "Id of the movement, unique for the client.", At: func(r *CreditMove) any { return &r.CreditID }},
		{Name: "date", Form: FormDate, Example: `"2026-08-24"`, Doc: "Day of the movement.", At: func(r *CreditMove) any { return &r.Date }},
		{Name: "kind", Form: FormText, Known: []string{moveTopUp, moveApplied, moveTakenBack, moveExpired}, Example: `"applied"`, Doc: "What moved: a top-up in the words of the workspace, applied to an invoice, taken back from one, or expired with its package.", At: func(r *CreditMove) any { return &r.Kind }},
		{Name: "amount", Form: FormMoney, Example: `"78.06"`, Doc: "Amount that moved, never negative. The kinds applied and expired take from the credit; every other kind adds to it.", At: func(r *CreditMove) any { return &r.Amount }},
		{Name: "invoice_id", Form: FormID, Nullable: true, Example: `"in_1042"`, Doc: "Invoice that it was applied to or taken back from; null otherwise.", At: func(r *CreditMove) any { return &r.InvoiceID }},
		{Name: "invoice_number", Form: FormText, Nullable: true, Example: `"INV-1042"`, Doc: "Number of that invoice as the movement gave it; null when it gave none. The invoice itself has its number.", At: func(r *CreditMove) any { return &r.InvoiceNumber }},
		{Name: "note", Form: FormText, Nullable: true, Example: `null`, Doc: "Remark; null without one.", At: func(r *CreditMove) any { return &r.Note }},
	})
)

// creditMoved is the data of credit.applied and credit.taken_back.
type creditMoved struct {
	references
	CreditID              string
	Amount                OptMoney
	Date, Note, PackageID string
	Hours                 OptDecimal
}

var creditMovedFields = []jsonform.Field[creditMoved]{
	{Name: "credit_id", Form: FormID, Required: true, At: func(d *creditMoved) any { return &d.CreditID }},
	{Name: "client_id", Form: FormID, Required: true, At: func(d *creditMoved) any { return &d.ClientID }},
	{Name: "invoice_id", Form: FormID, Required: true, At: func(d *creditMoved) any { return &d.InvoiceID }},
	{Name: "invoice_number", Form: FormText, At: func(d *creditMoved) any { return &d.InvoiceNumber }},
	{Name: "amount", Form: FormMoney, Required: true, At: func(d *creditMoved) any { return &d.Amount }},
	{Name: "date", Form: FormDate, At: func(d *creditMoved) any { return &d.Date }},
	{Name: "note", Form: FormText, At: func(d *creditMoved) any { return &d.Note }},
	{Name: "package_id", Form: FormID, At: func(d *creditMoved) any { return &d.PackageID }},
	{Name: "hours", Form: FormHours, At: func(d *creditMoved) any { return &d.Hours }},
}

func needsOfCreditMoved(n *Needs, d *creditMoved) {
	n.credit(d.ClientID)
	n.CreditMoves.add(CreditMoveKey(d.ClientID, d.CreditID))
	n.Invoices.add(d.InvoiceID)
}

var creditAppliedType = define(entryType[creditMoved]{
	typeHead: typeHead{
		name: "credit.applied", object: "credit", public: true, detached: []string{"note"},
		when: "Client credit was applied to an invoice, whose net_due is lower from now on.",
	},
	fields: creditMovedFields, effect: applyCredit, needs: needsOfCreditMoved,
})

var creditTakenBackType = define(entryType[creditMoved]{
	typeHead: typeHead{
		name: "credit.taken_back", object: "credit", public: true, detached: []string{"note"},
		when: "Client credit that was applied to an invoice went back to the client.",
	},
	fields: creditMovedFields, effect: takeBackCredit, needs: needsOfCreditMoved,
})

func applyCredit(f *fold, d *creditMoved) {
	if f.repeatedMove(d.ClientID, d.CreditID) {
		return
	}
	p, ok := f.packageOf(d.ClientID, d.PackageID)
	if !ok {
		return
	}
	if r := f.Invoices.Get(d.InvoiceID); r != nil && f.wrongCurrency(d.ClientID, r.Currency) {
		return
	}
	f.addMove(&d.references, d.row(moveApplied))
	var short, shortOfHours bool
	f.changeCredit(d.ClientID, func(c *Credit) {
		if p == nil {
			c.General, short = c.General.minus(d.Amount.Money)
			return
		}
		p.AmountRemaining, short = p.AmountRemaining.minus(d.Amount.Money)
		if p.HoursRemaining.Set {
			p.HoursRemaining.total, shortOfHours = p.HoursRemaining.minus(totalOf(int64(d.Hours.Decimal)))
		}
		if p.Status == packageActive && p.AmountRemaining.isZero() {
			p.Status = packageUsedUp
		}
	})
	if r := f.invoice(d.InvoiceID); r != nil {
		r.CreditApplied = r.CreditApplied.plus(d.Amount.Money)
		r.setNetDue()
		f.Invoices.touch(f.stamp, r)
	}
	if short || shortOfHours {
		f.anomaly(Overdrawn)
	}
}

func takeBackCredit(f *fold, d *creditMoved) {
	if f.repeatedMove(d.ClientID, d.CreditID) {
		return
	}
	p, ok := f.packageOf(d.ClientID, d.PackageID)
	if !ok {
		return
	}
	if r := f.Invoices.Get(d.InvoiceID); r != nil && f.wrongCurrency(d.ClientID, r.Currency) {
		return
	}
	f.addMove(&d.references, d.row(moveTakenBack))
	f.changeCredit(d.ClientID, func(c *Credit) {
		if p == nil {
			c.General = c.General.plus(d.Amount.Money)
			return
		}
		p.AmountRemaining = p.AmountRemaining.plus(d.Amount.Money)
		if p.HoursRemaining.Set {
			p.HoursRemaining.total = p.HoursRemaining.plus(totalOf(int64(d.Hours.Decimal)))
		}
		if p.Status == packageUsedUp {
			p.Status = packageActive
		}
	})
	if r := f.invoice(d.InvoiceID); r != nil {
		var short bool
		r.CreditApplied, short = r.CreditApplied.minus(d.Amount.Money)
		if short {
			f.anomaly(Overdrawn)
		}
		r.setNetDue()
		f.Invoices.touch(f.stamp, r)
	}
}

// creditExpired is the data of credit.expired.
type creditExpired struct {
	references
	CreditID, PackageID, Date, Note string
}

var creditExpiredType = define(entryType[creditExpired]{
	typeHead: typeHead{
		name: "credit.expired", object: "credit", detached: []string{"note"},
		when: "What remains in a package of client credit lapsed.",
	},
	fields: []jsonform.Field[creditExpired]{
		{Name: "credit_id", Form: FormID, Required: true, At: func(d *creditExpired) any { return &d.CreditID }},
		{Name: "client_id", Form: FormID, Required: true, At: func(d *creditExpired) any { return &d.ClientID }},
		{Name: "package_id", Form: FormID, Required: true, At: func(d *creditExpired) any { return &d.PackageID }},
		{Name: "date", Form: FormDate, At: func(d *creditExpired) any { return &d.Date }},
		{Name: "note", Form: FormText, At: func(d *creditExpired) any { return &d.Note }},
	},
	effect: expireCredit,
	needs: func(n *Needs, d *creditExpired) {
		n.credit(d.ClientID)
		n.CreditMoves.add(CreditMoveKey(d.ClientID, d.CreditID))
	},
})

func expireCredit(f *fold, d *creditExpired) {
	if f.repeatedMove(d.ClientID, d.CreditID) {
		return
	}
	p, ok := f.packageOf(d.ClientID, d.PackageID)
	if !ok {
		return
	}
	f.addMove(&d.references, CreditMove{CreditID: d.CreditID, Date: d.Date, Kind: moveExpired, Amount: p.AmountRemaining, Note: d.Note})
	f.changeCredit(d.ClientID, func(*Credit) {
		p.Status = packageExpired
		p.AmountRemaining = MoneyTotal{}
		p.HoursRemaining.total = total{}
	})
}

// row returns the entry's history row.
func (d *creditMoved) row(kind string) CreditMove {
	return CreditMove{CreditID: d.CreditID, Date: d.Date, Kind: kind, Amount: totalMoney(d.Amount.Money), Note: d.Note}
}

// repeatedMove reports whether the client already has this credit id, and if so records an anomaly.
func (f *fold) repeatedMove(clientID, creditID string) bool {
	if f.CreditMoves.Get(CreditMoveKey(clientID, creditID)) == nil {
		return false
	}
	f.anomaly(Repeat)
	return true
}

// changeCredit changes a client's credit, which comes to be with its first change.
func (f *fold) changeCredit(clientID string, set func(*Credit)) {
	f.Credits.write(f.stamp, clientID, func(c *Credit) {
		if c.Client.ID == "" {
			c.Client = f.client(clientID)
		}
		set(c)
	})
}

// nameCredit writes the client's name into its credit.
func (f *fold) nameCredit(clientID, name string) {
	f.Credits.write(f.stamp, clientID, func(c *Credit) { c.Client = Party{ID: clientID, Name: name} })
}

// packageOf returns the package that an entry names, or nil if the entry names none and so concerns
// the general credit. If the client has no such package, ok is false and the anomaly is recorded.
func (f *fold) packageOf(clientID, packageID string) (p *Package, ok bool) {
	if packageID == "" {
		return nil, true
	}
	if c := f.Credits.Get(clientID); c != nil {
		p = c.pack(packageID)
	}
	if p == nil {
		f.anomaly(UnknownObject)
	}
	return p, p != nil
}

// wrongCurrency reports whether currency differs from the currency of the client's credit, and if
// so records an anomaly. Credit without a currency accepts any. Amounts of two currencies are never
// added (docs/contract/log.md, "Client credit").
func (f *fold) wrongCurrency(clientID, currency string) bool {
	c := f.Credits.Get(clientID)
	if c == nil || c.Currency == "" || c.Currency == currency {
		return false
	}
	f.anomaly(WrongCurrency)
	return true
}

// addMove adds row to the history of a client's credit, with the ids from refs. If row has no date,
// it gets the entry's day (UTC).
func (f *fold) addMove(refs *references, row CreditMove) {
	f.CreditMoves.write(f.stamp, CreditMoveKey(refs.ClientID, row.CreditID), func(m *CreditMove) {
		row.Row = m.Row
		*m = row
		m.ClientID, m.InvoiceID, m.InvoiceNumber = refs.ClientID, refs.InvoiceID, refs.InvoiceNumber
		m.Date = cmp.Or(row.Date, f.at[:len(time.DateOnly)])
	})
}

// creditNoteIssued is the data of credit_note.issued. Its invoice_id is the
// credit note's own.
type creditNoteIssued struct {
	references
	Amount                          OptMoney
	Currency, Kind, SourceInvoiceID string
}

var creditNoteIssuedType = define(entryType[creditNoteIssued]{
	typeHead: typeHead{
		name: "credit_note.issued", object: "credit_note", public: true,
		when: "A credit note was issued. It is a row of /v1/invoices of its own, and names the invoice that it credits.",
	},
	fields: []jsonform.Field[creditNoteIssued]{
		{Name: "invoice_id", Form: FormID, Required: true, At: func(d *creditNoteIssued) any { return &d.InvoiceID }},
		{Name: "invoice_number", Form: FormText, Required: true, At: func(d *creditNoteIssued) any { return &d.InvoiceNumber }},
		{Name: "client_id", Form: FormID, Required: true, At: func(d *creditNoteIssued) any { return &d.ClientID }},
		{Name: "contractor_id", Form: FormID, At: func(d *creditNoteIssued) any { return &d.ContractorID }},
		{Name: "period", Form: FormPeriod, Required: true, At: func(d *creditNoteIssued) any { return &d.Period }},
		{Name: "amount", Form: FormMoney, Required: true, At: func(d *creditNoteIssued) any { return &d.Amount }},
		{Name: "currency", Form: FormCurrency, Required: true, At: func(d *creditNoteIssued) any { return &d.Currency }},
		{Name: "kind", Form: FormText, Required: true, At: func(d *creditNoteIssued) any { return &d.Kind }},
		{Name: "source_invoice_id", Form: FormID, Required: true, At: func(d *creditNoteIssued) any { return &d.SourceInvoiceID }},
	},
	effect: issueCreditNote,
	needs: func(n *Needs, d *creditNoteIssued) {
		n.Invoices.add(d.InvoiceID)
		n.parties(&d.references)
		n.Periods.add(d.Period)
	},
})

func issueCreditNote(f *fold, d *creditNoteIssued) {
	if f.Invoices.Get(d.InvoiceID) != nil {
		f.anomaly(Repeat)
		return
	}
	f.Invoices.write(f.stamp, d.InvoiceID, func(r *Invoice) {
		r.Shown = true
		r.Number = d.InvoiceNumber
		r.Type = invoiceTypeCreditNote
		r.Client = f.client(d.ClientID)
		r.Contractor = f.contractor(d.ContractorID)
		r.Period = d.Period
		r.ClientBillingStatus = statusSent
		r.GrossAmount = d.Amount.Money
		r.Currency = d.Currency
		r.SentAt = f.at
		r.PeriodClosed = f.closed(d.Period, d.ClientID)
		r.CreditNote = &CreditNote{Kind: d.Kind, Amount: d.Amount.Money, SourceInvoiceID: d.SourceInvoiceID}
	})
}

// creditToppedUp is the data of credit.topped_up.
type creditToppedUp struct {
	references
	CreditID             string
	Amount               OptMoney
	Currency, Date, Kind string
	Note                 string
	Package              *packageGrant
}

// packageGrant is the prepaid package that a top-up adds.
type packageGrant struct {
	PackageID, Service string
	Hours              OptDecimal
	ExpiresAt          string
}

var packageGrantFields = jsonform.Define([]jsonform.Field[packageGrant]{
	{Name: "package_id", Form: FormID, Required: true, Example: `"pk_10"`, Doc: "Id of the new package, unique for the client.", At: func(p *packageGrant) any { return &p.PackageID }},
	{Name: "service", Form: FormText, Required: true, Example: `"Occupational therapy"`, Doc: "Service that the package can pay for.", At: func(p *packageGrant) any { return &p.Service }},
	{Name: "hours", Form: FormHours, Example: `10`, Doc: "Hours of the package. Absent: it counts amounts alone.", At: func(p *packageGrant) any { return &p.Hours }},
	{Name: "expires_at", Form: FormDate, Example: `"2027-01-31"`, Doc: "Last day on which it can be used. Nothing happens by itself after this day.", At: func(p *packageGrant) any { return &p.ExpiresAt }},
})

var creditToppedUpType = define(entryType[creditToppedUp]{
	typeHead: typeHead{
		name: "credit.topped_up", object: "credit", detached: []string{"note"},
		when: "A client got credit, in a new package or in none.",
	},
	fields: []jsonform.Field[creditToppedUp]{
		{Name: "credit_id", Form: FormID, Required: true, At: func(d *creditToppedUp) any { return &d.CreditID }},
		{Name: "client_id", Form: FormID, Required: true, At: func(d *creditToppedUp) any { return &d.ClientID }},
		{Name: "amount", Form: FormMoney, Required: true, At: func(d *creditToppedUp) any { return &d.Amount }},
		{Name: "currency", Form: FormCurrency, Required: true, At: func(d *creditToppedUp) any { return &d.Currency }},
		{Name: "date", Form: FormDate, At: func(d *creditToppedUp) any { return &d.Date }},
		{Name: "kind", Form: FormText, At: func(d *creditToppedUp) any { return &d.Kind }},
		{Name: "note", Form: FormText, At: func(d *creditToppedUp) any { return &d.Note }},
		{Name: "package", Form: FormObject, At: func(d *creditToppedUp) any { return jsonform.ObjectOf(&d.Package, packageGrantFields) }},
	},
	effect: topUpCredit,
	needs: func(n *Needs, d *creditToppedUp) {
		n.credit(d.ClientID)
		n.CreditMoves.add(CreditMoveKey(d.ClientID, d.CreditID))
	},
})

func topUpCredit(f *fold, d *creditToppedUp) {
	if f.repeatedMove(d.ClientID, d.CreditID) {
		return
	}
	if d.Package != nil {
		if c := f.Credits.Get(d.ClientID); c != nil && c.pack(d.Package.PackageID) != nil {
			f.anomaly(Repeat)
			return
		}
	}
	if f.wrongCurrency(d.ClientID, d.Currency) {
		return
	}
	f.addMove(&d.references, CreditMove{
		CreditID: d.CreditID, Date: d.Date, Kind: cmp.Or(d.Kind, moveTopUp), Amount: totalMoney(d.Amount.Money), Note: d.Note,
	})
	f.changeCredit(d.ClientID, func(c *Credit) {
		c.Currency = d.Currency
		if d.Package == nil {
			c.General = c.General.plus(d.Amount.Money)
			return
		}
		c.Packages = append(c.Packages, Package{
			ID:              d.Package.PackageID,
			Service:         d.Package.Service,
			AmountGranted:   d.Amount.Money,
			AmountRemaining: totalMoney(d.Amount.Money),
			HoursRemaining:  totalDecimal(d.Package.Hours),
			ExpiresAt:       d.Package.ExpiresAt,
			Status:          packageActive,
		})
	})
}
