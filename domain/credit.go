package domain

import (
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

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
	Amount                         MoneyTotal // a sum of many entries where a package expires
	InvoiceID, InvoiceNumber, Note string
}

// CreditMoveKey is the id of a history row in a State: credit ids are unique only
// within a client.
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

// pack returns a package; nil where the client has none of this id.
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

	creditFields = jsonform.Define([]jsonform.Field[Credit]{
		{Name: "balance", Form: FormMoney, Example: `"751.10"`, Doc: "general_credit and what remains in active packages. A package counts until its expiry is recorded. It is 0.00 where more was applied than there was, although the history has the whole amounts.", Derive: func(b []byte, r *Credit) []byte {
			sum := r.balance()
			return sum.AppendJSON(b)
		}},
		{Name: "general_credit", Form: FormMoney, Example: `"271.10"`, Doc: "Credit that is in no package.", At: func(r *Credit) any { return &r.General }},
		{Name: "currency", Form: FormCurrency, Nullable: true, Example: `"EUR"`, Doc: "That of the first top-up, which all others share; null until there is one.", At: func(r *Credit) any { return &r.Currency }},
		{Name: "packages", Form: FormArray, Doc: "Prepaid packages, in the order in which they were added.", At: func(r *Credit) any { return jsonform.ArrayOf(&r.Packages, packageFields) }},
	})

	creditMoveFields = jsonform.Define([]jsonform.Field[CreditMove]{
		{Name: "id", Form: FormID, Example: `"cr_135"`, Doc: "Id of the movement, unique for the client.", At: func(r *CreditMove) any { return &r.CreditID }},
		{Name: "date", Form: FormDate, Example: `"2026-08-24"`, Doc: "Day of the movement.", At: func(r *CreditMove) any { return &r.Date }},
		{Name: "kind", Form: FormText, Known: []string{moveTopUp, moveApplied, moveTakenBack, moveExpired}, Example: `"applied"`, Doc: "What moved: a top-up in the words of the workspace, applied to an invoice, taken back from one, or expired with its package.", At: func(r *CreditMove) any { return &r.Kind }},
		{Name: "amount", Form: FormMoney, Example: `"78.06"`, Doc: "Amount that moved, never negative: kind says in which direction.", At: func(r *CreditMove) any { return &r.Amount }},
		{Name: "invoice_id", Form: FormID, Nullable: true, Example: `"in_1042"`, Doc: "Invoice that it was applied to or taken back from; null otherwise.", At: func(r *CreditMove) any { return &r.InvoiceID }},
		{Name: "invoice_number", Form: FormText, Nullable: true, Example: `"INV-1042"`, Doc: "Number of that invoice as the movement gave it; null when it gave none. The invoice itself has its number.", At: func(r *CreditMove) any { return &r.InvoiceNumber }},
		{Name: "note", Form: FormText, Nullable: true, Example: `null`, Doc: "Remark; null without one.", At: func(r *CreditMove) any { return &r.Note }},
	})
)
