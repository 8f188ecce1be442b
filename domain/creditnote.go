package domain

import "github.com/ledgerfeed/ledgerfeed/domain/jsonform"

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
