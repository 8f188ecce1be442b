package domain

import (
	"cmp"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

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
	{Name: "package_id", Form: FormID, Required: true, At: func(p *packageGrant) any { return &p.PackageID }},
	{Name: "service", Form: FormText, Required: true, At: func(p *packageGrant) any { return &p.Service }},
	{Name: "hours", Form: FormHours, At: func(p *packageGrant) any { return &p.Hours }},
	{Name: "expires_at", Form: FormDate, At: func(p *packageGrant) any { return &p.ExpiresAt }},
})

var creditToppedUpType = define(entryType[creditToppedUp]{
	typeHead: typeHead{name: "credit.topped_up", object: "credit"},
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
		n.Credits.add(d.ClientID)
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
	f.Credits.write(f.stamp, d.ClientID, func(c *Credit) {
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
