package domain

import (
	"cmp"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// payoutSentToPayroll is the data of payout.sent_to_payroll.
type payoutSentToPayroll struct {
	references
	SentAt string
}

var payoutSentToPayrollType = define(entryType[payoutSentToPayroll]{
	typeHead: typeHead{
		name: "payout.sent_to_payroll", object: "invoice", pay: true,
		when: "The contractor's payout of an invoice was handed to payroll.",
	},
	fields: []jsonform.Field[payoutSentToPayroll]{
		{Name: "invoice_id", Form: FormID, Required: true, At: func(d *payoutSentToPayroll) any { return &d.InvoiceID }},
		{Name: "sent_at", Form: FormDateTime, At: func(d *payoutSentToPayroll) any { return &d.SentAt }},
	},
	effect: sendPayoutToPayroll,
	needs:  func(n *Needs, d *payoutSentToPayroll) { n.Invoices.add(d.InvoiceID) },
})

func sendPayoutToPayroll(f *fold, d *payoutSentToPayroll) {
	r := f.invoice(d.InvoiceID)
	if r == nil {
		return
	}
	r.PayoutSentToPayrollAt = cmp.Or(d.SentAt, f.at)
	if r.ContractorPayStatus != payPaid {
		r.ContractorPayStatus = paySentToPayroll
	}
	f.Invoices.touch(f.stamp, r)
}

// payoutPaid is the data of payout.paid.
type payoutPaid struct{ paymentConfirmed }

var payoutPaidType = define(entryType[payoutPaid]{
	typeHead: typeHead{
		name: TypePayoutPaid, object: "payout", public: true, pay: true,
		when: "A contractor was paid. Sent to webhooks that chose it, and shown in the feed to keys with pay:read alone.",
	},
	fields: []jsonform.Field[payoutPaid]{
		{Name: "payment_id", Form: FormID, Required: true, At: func(d *payoutPaid) any { return &d.PaymentID }},
		{Name: "invoice_id", Form: FormID, At: func(d *payoutPaid) any { return &d.InvoiceID }},
		{Name: "invoice_number", Form: FormText, At: func(d *payoutPaid) any { return &d.InvoiceNumber }},
		{Name: "client_id", Form: FormID, At: func(d *payoutPaid) any { return &d.ClientID }},
		{Name: "contractor_id", Form: FormID, Required: true, At: func(d *payoutPaid) any { return &d.ContractorID }},
		{Name: "amount", Form: FormMoney, Required: true, At: func(d *payoutPaid) any { return &d.Amount }},
		{Name: "currency", Form: FormCurrency, Required: true, At: func(d *payoutPaid) any { return &d.Currency }},
		{Name: "confirmed_at", Form: FormDateTime, At: func(d *payoutPaid) any { return &d.ConfirmedAt }},
		{Name: "source", Form: FormText, Required: true, At: func(d *payoutPaid) any { return &d.Source }},
	},
	effect: payPayout,
	needs: func(n *Needs, d *payoutPaid) {
		n.Payments.add(d.PaymentID)
		n.parties(&d.references)
		n.Invoices.add(d.InvoiceID)
	},
	mass: func(m *MassEffects, d *payoutPaid) { m.LinesOf.add(d.InvoiceID) },
})

func payPayout(f *fold, d *payoutPaid) {
	if !f.addPayment(&d.paymentConfirmed, PaidToContractor, f.contractor(d.ContractorID)) || d.InvoiceID == "" {
		return
	}
	r := f.invoice(d.InvoiceID)
	if r == nil {
		return // the payment row stays
	}
	r.ContractorPayStatus = payPaid
	f.Invoices.touch(f.stamp, r)
	changeAll(f, &f.TimeEntries, change{
		of:  []reference{{byInvoice, d.InvoiceID}, {byContractor, d.ContractorID}},
		set: []value{{"pay_status", payPaid}},
	})
}

// Payment is a row of /v1/payments. It exists only once the accounting system
// has confirmed the payment.
type Payment struct {
	Row
	parties
	Direction                string
	InvoiceID, InvoiceNumber string
	Amount                   Money
	Currency, ConfirmedAt    string
	Source                   string
}

// Day returns the day of the confirmation, in UTC.
func (r *Payment) Day() string { return r.ConfirmedAt[:len(time.DateOnly)] }

// The directions of a payment. Payouts are shown only with pay:read.
const (
	ReceivedFromClient = "received_from_client"
	PaidToContractor   = "paid_to_contractor"
)

var paymentFields = jsonform.Define([]jsonform.Field[Payment]{
	{Name: "id", Form: FormID, Example: `"pm_33"`, Doc: "Id of the payment in its workspace. It never changes.", At: func(r *Payment) any { return &r.ID }},
	{Name: "direction", Form: FormEnum, Values: []string{ReceivedFromClient, PaidToContractor}, Example: `"received_from_client"`, Doc: "received_from_client, or paid_to_contractor, which is shown only with pay:read.", At: func(r *Payment) any { return &r.Direction }},
	{Name: "invoice_id", Form: FormID, Nullable: true, Example: `"in_1042"`, Doc: "Invoice that was paid; null when the payment names none. It may be a draft, which is a 404 until it is shown.", At: func(r *Payment) any { return &r.InvoiceID }},
	{Name: "invoice_number", Form: FormText, Nullable: true, Example: `"INV-1042"`, Doc: "Number of that invoice as the payment gave it; null when it gave none. The invoice itself has its number.", At: func(r *Payment) any { return &r.InvoiceNumber }},
	{Name: "client", Form: FormObject, Nullable: true, Example: `{"id":"cl_4821","name":"Northwind Clinic"}`, Doc: "Who paid, or whose work was paid for; null when a payout names nobody.", At: func(r *Payment) any { return &r.Client }},
	{Name: "amount", Form: FormMoney, Example: `"908.51"`, Doc: "Amount that was paid.", At: func(r *Payment) any { return &r.Amount }},
	{Name: "currency", Form: FormCurrency, Example: `"EUR"`, Doc: "Currency of the amount, ISO 4217.", At: func(r *Payment) any { return &r.Currency }},
	{Name: "confirmed_at", Form: FormDateTime, Example: `"2026-10-02T09:15:00.120Z"`, Doc: "When the accounting system confirmed the payment.", At: func(r *Payment) any { return &r.ConfirmedAt }},
	{Name: "source", Form: FormText, Example: `"quickbooks"`, Doc: "System that confirmed it.", At: func(r *Payment) any { return &r.Source }},
	{Name: "contractor", Form: FormObject, Nullable: true, Example: `null`, Doc: "Who was paid; null when the direction is received_from_client.", At: func(r *Payment) any { return &r.Contractor }},
})

// paymentConfirmed is the data of payment.confirmed.
type paymentConfirmed struct {
	references
	PaymentID             string
	Amount                OptMoney
	Currency, ConfirmedAt string
	Source                string
}

var paymentConfirmedType = define(entryType[paymentConfirmed]{
	typeHead: typeHead{
		name: "payment.confirmed", object: "payment",
		when: "A payment by a client was confirmed.",
	},
	fields: []jsonform.Field[paymentConfirmed]{
		{Name: "payment_id", Form: FormID, Required: true, At: func(d *paymentConfirmed) any { return &d.PaymentID }},
		{Name: "invoice_id", Form: FormID, At: func(d *paymentConfirmed) any { return &d.InvoiceID }},
		{Name: "invoice_number", Form: FormText, At: func(d *paymentConfirmed) any { return &d.InvoiceNumber }},
		{Name: "client_id", Form: FormID, Required: true, At: func(d *paymentConfirmed) any { return &d.ClientID }},
		{Name: "amount", Form: FormMoney, Required: true, At: func(d *paymentConfirmed) any { return &d.Amount }},
		{Name: "currency", Form: FormCurrency, Required: true, At: func(d *paymentConfirmed) any { return &d.Currency }},
		{Name: "confirmed_at", Form: FormDateTime, At: func(d *paymentConfirmed) any { return &d.ConfirmedAt }},
		{Name: "source", Form: FormText, Required: true, At: func(d *paymentConfirmed) any { return &d.Source }},
	},
	effect: func(f *fold, d *paymentConfirmed) { f.addPayment(d, ReceivedFromClient, Party{}) },
	needs: func(n *Needs, d *paymentConfirmed) {
		n.Payments.add(d.PaymentID)
		n.parties(&d.references)
	},
})

// addPayment adds a payment row. If the id already exists, it records an anomaly and returns false.
func (f *fold) addPayment(d *paymentConfirmed, direction string, contractor Party) bool {
	if f.Payments.Get(d.PaymentID) != nil {
		f.anomaly(Repeat)
		return false
	}
	f.Payments.write(f.stamp, d.PaymentID, func(r *Payment) {
		r.Direction = direction
		r.InvoiceID, r.InvoiceNumber = d.InvoiceID, d.InvoiceNumber
		r.Client, r.Contractor = f.client(d.ClientID), contractor
		r.Amount = d.Amount.Money
		r.Currency = d.Currency
		r.ConfirmedAt = cmp.Or(d.ConfirmedAt, f.at)
		r.Source = d.Source
	})
	return true
}
