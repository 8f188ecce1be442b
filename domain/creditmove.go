package domain

import (
	"cmp"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
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
	n.Credits.add(d.ClientID)
	n.CreditMoves.add(CreditMoveKey(d.ClientID, d.CreditID))
	n.Invoices.add(d.InvoiceID)
}

var creditAppliedType = define(entryType[creditMoved]{
	typeHead: typeHead{
		name: "credit.applied", object: "credit", public: true,
		when: "Client credit was applied to an invoice, whose net_due is lower from now on.",
	},
	fields: creditMovedFields, effect: applyCredit, needs: needsOfCreditMoved,
})

var creditTakenBackType = define(entryType[creditMoved]{
	typeHead: typeHead{
		name: "credit.taken_back", object: "credit", public: true,
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
	f.Credits.write(f.stamp, d.ClientID, func(c *Credit) {
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
	f.Credits.write(f.stamp, d.ClientID, func(c *Credit) {
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
	typeHead: typeHead{name: "credit.expired", object: "credit"},
	fields: []jsonform.Field[creditExpired]{
		{Name: "credit_id", Form: FormID, Required: true, At: func(d *creditExpired) any { return &d.CreditID }},
		{Name: "client_id", Form: FormID, Required: true, At: func(d *creditExpired) any { return &d.ClientID }},
		{Name: "package_id", Form: FormID, Required: true, At: func(d *creditExpired) any { return &d.PackageID }},
		{Name: "date", Form: FormDate, At: func(d *creditExpired) any { return &d.Date }},
		{Name: "note", Form: FormText, At: func(d *creditExpired) any { return &d.Note }},
	},
	effect: expireCredit,
	needs: func(n *Needs, d *creditExpired) {
		n.Credits.add(d.ClientID)
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
	f.Credits.write(f.stamp, d.ClientID, func(*Credit) {
		p.Status = packageExpired
		p.AmountRemaining = MoneyTotal{}
		p.HoursRemaining.total = total{}
	})
}

// row is the history row of the entry.
func (d *creditMoved) row(kind string) CreditMove {
	return CreditMove{CreditID: d.CreditID, Date: d.Date, Kind: kind, Amount: totalMoney(d.Amount.Money), Note: d.Note}
}

// repeatedMove reports, and notes, a credit id that the client has already.
func (f *fold) repeatedMove(clientID, creditID string) bool {
	if f.CreditMoves.Get(CreditMoveKey(clientID, creditID)) == nil {
		return false
	}
	f.anomaly(Repeat)
	return true
}

// packageOf returns the package that an entry names; nil where it names none and
// so is about the general credit. ok is false, and the anomaly noted, where the
// client has no such package.
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

// wrongCurrency reports, and notes, a currency that is not that of the client's
// credit. A credit without one takes any: amounts of two currencies are never
// added (docs/contract/log.md, "Client credit").
func (f *fold) wrongCurrency(clientID, currency string) bool {
	c := f.Credits.Get(clientID)
	if c == nil || c.Currency == "" || c.Currency == currency {
		return false
	}
	f.anomaly(WrongCurrency)
	return true
}

// addMove adds a row to the history of a client's credit: row, with what the
// references say, and the day of the entry (UTC) unless it gives another.
func (f *fold) addMove(refs *references, row CreditMove) {
	f.CreditMoves.write(f.stamp, CreditMoveKey(refs.ClientID, row.CreditID), func(m *CreditMove) {
		row.Row = m.Row
		*m = row
		m.ClientID, m.InvoiceID, m.InvoiceNumber = refs.ClientID, refs.InvoiceID, refs.InvoiceNumber
		m.Date = cmp.Or(row.Date, f.at[:len(time.DateOnly)])
	})
}
