package domain

import "strings"

// Credit is a client's credit: /v1/clients/{id}/credit without its history.
// Its Row.ID is the client's id.
type Credit struct {
	Row
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

// CreditMove is a row of a client's credit history. Its Row.ID is
// CreditMoveKey of client and credit.
type CreditMove struct {
	Row
	ClientID, CreditID             string
	Date, Kind                     string
	Amount                         MoneyTotal // of what expires, that of many entries
	InvoiceID, InvoiceNumber, Note string
}

// CreditMoveKey is the id of a history row in a State: credit ids are unique
// in one client.
func CreditMoveKey(clientID, creditID string) string { return clientID + "/" + creditID }

// SplitCreditMoveKey is the reverse of CreditMoveKey.
func SplitCreditMoveKey(key string) (clientID, creditID string) {
	clientID, creditID, _ = strings.Cut(key, "/") // an id holds no slash
	return clientID, creditID
}

// The states of a package and the kinds of history rows that entries do not
// name themselves.
const (
	packageActive  = "active"
	packageUsedUp  = "used_up"
	packageExpired = "expired"

	moveTopUp     = "top_up"
	moveApplied   = "applied"
	moveTakenBack = "taken_back"
	moveExpired   = "expired"
)

// balance is the general credit and what remains in active packages.
func (c *Credit) balance() MoneyTotal {
	sum := c.General.total
	for i := range c.Packages {
		if c.Packages[i].Status == packageActive {
			sum = sum.plus(c.Packages[i].AmountRemaining.total)
		}
	}
	return MoneyTotal{sum}
}

func (c *Credit) pack(id string) *Package {
	for i := range c.Packages {
		if c.Packages[i].ID == id {
			return &c.Packages[i]
		}
	}
	return nil
}

var (
	packageFields = table([]Field[Package]{
		{Name: "id", Form: FormID, Example: `"pk_10"`, at: func(r *Package) any { return &r.ID }},
		{Name: "service", Form: FormText, Example: `"Occupational therapy"`, at: func(r *Package) any { return &r.Service }},
		{Name: "amount_granted", Form: FormMoney, Example: `"1200.00"`, at: func(r *Package) any { return &r.AmountGranted }},
		{Name: "amount_remaining", Form: FormMoney, Example: `"480.00"`, at: func(r *Package) any { return &r.AmountRemaining }},
		{Name: "hours_remaining", Form: FormHours, Nullable: true, Example: `4`, at: func(r *Package) any { return &r.HoursRemaining }},
		{Name: "expires_at", Form: FormDate, Nullable: true, Example: `"2027-01-31"`, at: func(r *Package) any { return &r.ExpiresAt }},
		{Name: "status", Form: FormEnum, Values: []string{packageActive, packageUsedUp, packageExpired}, Example: `"active"`, at: func(r *Package) any { return &r.Status }},
	})

	creditFields = table([]Field[Credit]{
		{Name: "balance", Form: FormMoney, Example: `"751.10"`, Doc: "general_credit and what remains in active packages.", derive: func(b []byte, r *Credit) []byte {
			sum := r.balance()
			return appendValue(b, &sum)
		}},
		{Name: "general_credit", Form: FormMoney, Example: `"271.10"`, at: func(r *Credit) any { return &r.General }},
		{Name: "currency", Form: FormCurrency, Nullable: true, Example: `"EUR"`, Doc: "Null until credit has moved in a currency.", at: func(r *Credit) any { return &r.Currency }},
		{Name: "packages", Form: FormArray, Doc: "In the order in which they were added.", at: func(r *Credit) any { return array[Package]{&r.Packages, packageFields} }},
	})

	creditMoveFields = table([]Field[CreditMove]{
		{Name: "id", Form: FormID, Example: `"cr_135"`, at: func(r *CreditMove) any { return &r.CreditID }},
		{Name: "date", Form: FormDate, Example: `"2026-08-24"`, at: func(r *CreditMove) any { return &r.Date }},
		{Name: "kind", Form: FormText, Known: []string{moveTopUp, moveApplied, moveTakenBack, moveExpired}, Example: `"applied"`, at: func(r *CreditMove) any { return &r.Kind }},
		{Name: "amount", Form: FormMoney, Example: `"78.06"`, at: func(r *CreditMove) any { return &r.Amount }},
		{Name: "invoice_id", Form: FormID, Nullable: true, Example: `"in_1042"`, at: func(r *CreditMove) any { return &r.InvoiceID }},
		{Name: "invoice_number", Form: FormText, Nullable: true, Example: `"INV-1042"`, at: func(r *CreditMove) any { return &r.InvoiceNumber }},
		{Name: "note", Form: FormText, Nullable: true, Example: `null`, at: func(r *CreditMove) any { return &r.Note }},
	})
)

func creditTypes() []*Type {
	about := func(d *Data) string { return d.CreditID }
	id := required(define("credit_id", FormID, func(d *Data) any { return &d.CreditID }))
	date := byDefault(define("date", FormDate, func(d *Data) any { return &d.Date }), "day of at (UTC)")
	note := define("note", FormText, func(d *Data) any { return &d.Note })
	packageID := define("package_id", FormID, func(d *Data) any { return &d.PackageID })
	hours := define("hours", FormHours, func(d *Data) any { return &d.Hours })
	moved := func() []Field[Data] {
		return []Field[Data]{
			id, required(fieldClientID()), required(fieldInvoiceID()), fieldInvoiceNumber(), fieldAmount(), date, note, packageID, hours,
		}
	}
	return []*Type{
		{
			Name: "credit.topped_up", Object: "credit", object: about, effect: (*fold).creditToppedUp,
			Fields: []Field[Data]{
				id, required(fieldClientID()), fieldAmount(), fieldCurrency(), date,
				byDefault(fieldKind(), moveTopUp), note,
				define("package", FormObject, func(d *Data) any { return object[PackageGrant]{&d.Package, packageGrantFields} }),
			},
		},
		{Name: "credit.applied", Object: "credit", Public: true, object: about, effect: (*fold).creditApplied, Fields: moved()},
		{Name: "credit.taken_back", Object: "credit", Public: true, object: about, effect: (*fold).creditTakenBack, Fields: moved()},
		{
			Name: "credit.expired", Object: "credit", object: about, effect: (*fold).creditExpired,
			Fields: []Field[Data]{id, required(fieldClientID()), required(packageID), date, note},
		},
	}
}
