package domain

import "slices"

// Type is one row of the catalogue (docs/contract/log.md, "Catalogue"): the fields an entry
// of this type has, what it is about, and whether the feed shows it.
type Type struct {
	Name   string
	Object string // object_type of the public form
	Public bool
	Fields []Field[Data] // those listed, then the reference ids not listed, in canonical order

	object func(*Data) string // object_id of the public form
	effect func(*fold, *Data)
}

// Names of the types that other rules speak of.
const (
	TypePayoutPaid = "payout.paid" // public only for pay:read
	TypeTestPing   = "test.ping"   // delivered to one webhook alone
)

// Types returns the catalogue in its order.
func Types() []*Type { return catalogue }

// TypeNamed looks a type up; nil when this version does not know it.
func TypeNamed(name string) *Type { return byName[name] }

// PublicTypes returns the names of the service's event types, in order.
func PublicTypes() []string {
	var list []string
	for _, t := range catalogue {
		if t.Public {
			list = append(list, t.Name)
		}
	}
	return list
}

// catalogue and byName are definitions: made once, never changed.
var (
	catalogue []*Type
	byName    = map[string]*Type{}
)

//nolint:gochecknoinits // the catalogue refers to the fold, which refers to the catalogue
func init() {
	for _, group := range [][]*Type{partyTypes(), invoiceTypes(), paymentTypes(), timeEntryTypes(), chargeTypes(), creditTypes(), testTypes()} {
		catalogue = append(catalogue, group...)
	}
	for _, t := range catalogue {
		t.Fields = table(withReferences(t.Fields))
		byName[t.Name] = t
	}
}

// withReferences adds the reference ids that a type does not list.
func withReferences(fields []Field[Data]) []Field[Data] {
	for _, ref := range references() {
		if !slices.ContainsFunc(fields, func(f Field[Data]) bool { return f.Name == ref.Name }) {
			fields = append(fields, ref)
		}
	}
	return fields
}

// references are the five ids that every type accepts, in their order.
func references() []Field[Data] {
	return []Field[Data]{fieldInvoiceID(), fieldInvoiceNumber(), fieldClientID(), fieldContractorID(), fieldPeriod()}
}

// required marks a field that a type insists on.
func required(f Field[Data]) Field[Data] {
	f.Required = true
	return f
}

// byDefault gives the meaning of an absent field.
func byDefault(f Field[Data], def string) Field[Data] {
	f.Default = def
	return f
}

// id, text, money, … define a field of that form.
func define(name string, form Form, at func(*Data) any) Field[Data] {
	return Field[Data]{Name: name, Form: form, at: at}
}

func fieldInvoiceID() Field[Data] {
	return define("invoice_id", FormID, func(d *Data) any { return &d.InvoiceID })
}

func fieldInvoiceNumber() Field[Data] {
	return define("invoice_number", FormText, func(d *Data) any { return &d.InvoiceNumber })
}

func fieldClientID() Field[Data] {
	return define("client_id", FormID, func(d *Data) any { return &d.ClientID })
}

func fieldContractorID() Field[Data] {
	return define("contractor_id", FormID, func(d *Data) any { return &d.ContractorID })
}

func fieldPeriod() Field[Data] {
	return define("period", FormPeriod, func(d *Data) any { return &d.Period })
}

func fieldAmount() Field[Data] {
	return required(define("amount", FormMoney, func(d *Data) any { return &d.Amount }))
}

func fieldCurrency() Field[Data] {
	return required(define("currency", FormCurrency, func(d *Data) any { return &d.Currency }))
}

func fieldSentAt() Field[Data] {
	return byDefault(define("sent_at", FormDateTime, func(d *Data) any { return &d.SentAt }), "at")
}

func fieldConfirmedAt() Field[Data] {
	return byDefault(define("confirmed_at", FormDateTime, func(d *Data) any { return &d.ConfirmedAt }), "at")
}

func fieldSource() Field[Data] {
	return required(define("source", FormText, func(d *Data) any { return &d.Source }))
}

func fieldDescription() Field[Data] {
	return define("description", FormText, func(d *Data) any { return &d.Description })
}

func fieldPayRate() Field[Data] {
	return define("pay_rate", FormMoney, func(d *Data) any { return &d.PayRate })
}

func fieldPayAmount() Field[Data] {
	return define("pay_amount", FormMoney, func(d *Data) any { return &d.PayAmount })
}

func fieldPlanName() Field[Data] {
	return define("plan_name", FormText, func(d *Data) any { return &d.PlanName })
}

func fieldKind() Field[Data] {
	return define("kind", FormText, func(d *Data) any { return &d.Kind })
}

func fieldName() Field[Data] {
	return required(define("name", FormText, func(d *Data) any { return &d.Name }))
}

func fieldStatus() Field[Data] {
	return byDefault(define("status", FormText, func(d *Data) any { return &d.Status }), "active")
}
