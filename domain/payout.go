package domain

import (
	"cmp"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// payoutSentToPayroll is the data of payout.sent_to_payroll.
type payoutSentToPayroll struct {
	references
	SentAt string
}

var payoutSentToPayrollType = define(entryType[payoutSentToPayroll]{
	typeHead: typeHead{name: "payout.sent_to_payroll", object: "invoice", pay: true},
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
