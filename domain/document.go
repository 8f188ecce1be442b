package domain

import (
	"cmp"
	"slices"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// An invoice's documents are its issued_invoices. Every entry type in this file makes the invoice
// visible to readers, even if it was recorded as a draft.

// invoiceIssued is the data of invoice.issued.
type invoiceIssued struct {
	references
	Amount         OptMoney
	IssuedAt       string
	IsSupplemental jsonform.OptBool
}

var invoiceIssuedType = define(entryType[invoiceIssued]{
	typeHead: typeHead{
		name: "invoice.issued", object: "invoice", public: true,
		when: "A document of the invoice was issued: it has a number and an amount from now on.",
	},
	fields: []jsonform.Field[invoiceIssued]{
		{Name: "invoice_id", Form: FormID, Required: true, At: func(d *invoiceIssued) any { return &d.InvoiceID }},
		{Name: "invoice_number", Form: FormText, Required: true, At: func(d *invoiceIssued) any { return &d.InvoiceNumber }},
		{Name: "amount", Form: FormMoney, Required: true, At: func(d *invoiceIssued) any { return &d.Amount }},
		{Name: "issued_at", Form: FormDateTime, At: func(d *invoiceIssued) any { return &d.IssuedAt }},
		{Name: "is_supplemental", Form: FormBool, At: func(d *invoiceIssued) any { return &d.IsSupplemental }},
	},
	effect: issueInvoice,
	needs:  func(n *Needs, d *invoiceIssued) { n.Invoices.add(d.InvoiceID) },
	mass:   func(m *MassEffects, d *invoiceIssued) { m.LinesOf.add(d.InvoiceID) },
})

func issueInvoice(f *fold, d *invoiceIssued) {
	r := f.invoice(d.InvoiceID)
	if r == nil {
		return
	}
	for _, doc := range r.Issued {
		if doc.Number == d.InvoiceNumber && doc.Status != documentVoided {
			f.anomaly(Repeat)
			return
		}
	}
	r.Issued = append(r.Issued, IssuedInvoice{
		Number:         d.InvoiceNumber,
		Amount:         d.Amount.Money,
		Status:         documentIssued,
		IssuedAt:       cmp.Or(d.IssuedAt, f.at),
		IsSupplemental: d.IsSupplemental.Or(false),
	})
	f.show(r)
	f.changeLines(r.ID, []choice{is(lineIssuedNumber, "")}, value{lineIssuedNumber, d.InvoiceNumber})
}

// invoiceSent is the data of invoice.sent.
type invoiceSent struct {
	references
	SentAt string
}

var invoiceSentType = define(entryType[invoiceSent]{
	typeHead: typeHead{
		name: "invoice.sent", object: "invoice", public: true,
		when: "A document of the invoice, or each that was issued, was sent to the client.",
	},
	fields: []jsonform.Field[invoiceSent]{
		{Name: "invoice_id", Form: FormID, Required: true, At: func(d *invoiceSent) any { return &d.InvoiceID }},
		{Name: "invoice_number", Form: FormText, At: func(d *invoiceSent) any { return &d.InvoiceNumber }},
		{Name: "sent_at", Form: FormDateTime, At: func(d *invoiceSent) any { return &d.SentAt }},
	},
	effect: sendInvoice,
	needs:  func(n *Needs, d *invoiceSent) { n.Invoices.add(d.InvoiceID) },
	mass:   func(m *MassEffects, d *invoiceSent) { m.LinesOf.add(d.InvoiceID) },
})

func sendInvoice(f *fold, d *invoiceSent) {
	r := f.invoiceWithDocument(d.InvoiceID, d.InvoiceNumber)
	if r == nil {
		return
	}
	at := cmp.Or(d.SentAt, f.at)
	for i := range r.Issued {
		doc := &r.Issued[i]
		if d.InvoiceNumber == "" && doc.Status != documentIssued {
			continue
		}
		if d.InvoiceNumber != "" && (doc.Number != d.InvoiceNumber || doc.Status == statusPaid || doc.Status == documentVoided) {
			continue
		}
		doc.Status, doc.SentAt = statusSent, at
	}
	r.SentAt = at
	if r.ClientBillingStatus != statusPaid {
		r.ClientBillingStatus = statusSent
	}
	f.show(r)
	f.changeLines(r.ID, []choice{is(lineStatus, lineApproved)}, value{lineStatus, statusSent})
}

// invoicePaid is the data of invoice.paid.
type invoicePaid struct {
	references
	PaidAt string
}

var invoicePaidType = define(entryType[invoicePaid]{
	typeHead: typeHead{
		name: "invoice.paid", object: "invoice", public: true,
		when: "A document of the invoice, or each that is not voided, was paid.",
	},
	fields: []jsonform.Field[invoicePaid]{
		{Name: "invoice_id", Form: FormID, Required: true, At: func(d *invoicePaid) any { return &d.InvoiceID }},
		{Name: "invoice_number", Form: FormText, At: func(d *invoicePaid) any { return &d.InvoiceNumber }},
		{Name: "paid_at", Form: FormDateTime, At: func(d *invoicePaid) any { return &d.PaidAt }},
	},
	effect: payInvoice,
	needs:  func(n *Needs, d *invoicePaid) { n.Invoices.add(d.InvoiceID) },
	mass:   func(m *MassEffects, d *invoicePaid) { m.LinesOf.add(d.InvoiceID) },
})

func payInvoice(f *fold, d *invoicePaid) {
	r := f.invoiceWithDocument(d.InvoiceID, d.InvoiceNumber)
	if r == nil {
		return
	}
	at := cmp.Or(d.PaidAt, f.at)
	allPaid := true
	for i := range r.Issued {
		doc := &r.Issued[i]
		if doc.Status == documentVoided {
			continue
		}
		if d.InvoiceNumber == "" || doc.Number == d.InvoiceNumber {
			doc.Status, doc.PaidAt = statusPaid, at
		}
		allPaid = allPaid && doc.Status == statusPaid
	}
	f.show(r)
	if !allPaid {
		return
	}
	r.ClientBillingStatus, r.PaidAt = statusPaid, at
	f.changeLines(r.ID, []choice{is(lineStatus, lineApproved, statusSent)}, value{lineStatus, statusPaid})
}

// invoiceVoided is the data of invoice.voided.
type invoiceVoided struct{ references }

var invoiceVoidedType = define(entryType[invoiceVoided]{
	typeHead: typeHead{
		name: "invoice.voided", object: "invoice", public: true,
		when: "A document of the invoice was withdrawn. Its number no longer counts, and time entries and charges lose it.",
	},
	fields: []jsonform.Field[invoiceVoided]{
		{Name: "invoice_id", Form: FormID, Required: true, At: func(d *invoiceVoided) any { return &d.InvoiceID }},
		{Name: "invoice_number", Form: FormText, Required: true, At: func(d *invoiceVoided) any { return &d.InvoiceNumber }},
	},
	effect: voidInvoice,
	needs:  func(n *Needs, d *invoiceVoided) { n.Invoices.add(d.InvoiceID) },
	mass:   func(m *MassEffects, d *invoiceVoided) { m.LinesOf.add(d.InvoiceID) },
})

func voidInvoice(f *fold, d *invoiceVoided) {
	r := f.invoiceWithDocument(d.InvoiceID, d.InvoiceNumber)
	if r == nil {
		return
	}
	allVoided := true
	for i := range r.Issued {
		doc := &r.Issued[i]
		if doc.Number == d.InvoiceNumber {
			doc.Status = documentVoided
		}
		allVoided = allVoided && doc.Status == documentVoided
	}
	if allVoided {
		r.ClientBillingStatus, r.SentAt, r.PaidAt = statusReadyToSend, "", ""
	}
	f.show(r)
	numbered, settled := is(lineIssuedNumber, d.InvoiceNumber), is(lineStatus, statusSent, statusPaid)
	noNumber, approved := value{lineIssuedNumber, ""}, value{lineStatus, lineApproved}
	if allVoided {
		f.changeLines(r.ID, []choice{numbered, settled}, noNumber, approved)
		f.changeLines(r.ID, []choice{settled}, approved)
	}
	f.changeLines(r.ID, []choice{numbered}, noNumber)
}

// invoiceReversed is the data of invoice.reversed.
type invoiceReversed struct{ references }

var invoiceReversedType = define(entryType[invoiceReversed]{
	typeHead: typeHead{
		name: "invoice.reversed", object: "invoice", public: true,
		when: "The invoice was reversed in the books. It stays in the list.",
	},
	fields: []jsonform.Field[invoiceReversed]{
		{Name: "invoice_id", Form: FormID, Required: true, At: func(d *invoiceReversed) any { return &d.InvoiceID }},
	},
	effect: reverseInvoice,
	needs:  func(n *Needs, d *invoiceReversed) { n.Invoices.add(d.InvoiceID) },
})

func reverseInvoice(f *fold, d *invoiceReversed) {
	if r := f.invoice(d.InvoiceID); r != nil {
		r.Reversed = true
		f.show(r)
	}
}

// invoiceWithDocument returns the invoice that an entry refers to. If the invoice does not exist or
// has no document with this number, it records an anomaly and returns nil. An empty number is not
// checked.
func (f *fold) invoiceWithDocument(id, number string) *Invoice {
	r := f.invoice(id)
	if r == nil || number == "" {
		return r
	}
	if !slices.ContainsFunc(r.Issued, func(doc IssuedInvoice) bool { return doc.Number == number }) {
		f.anomaly(UnknownDocument)
		return nil
	}
	return r
}

// show makes an invoice visible to readers and marks it as changed.
func (f *fold) show(r *Invoice) {
	r.Shown = true
	f.Invoices.touch(f.stamp, r)
}

// Time entries and charges are the lines of an invoice.

// States that only lines have.
const (
	lineInReview = "in_review"
	lineApproved = "approved"
	lineDeclined = "declined"
)

// LineStatuses returns the states of time entries and charges.
func LineStatuses() []string {
	return []string{lineInReview, lineApproved, lineDeclined, statusSent, statusPaid}
}

// Line fields that change with the invoice's documents.
const (
	lineStatus       = "status"
	lineIssuedNumber = "issued_invoice_number"
)

// changeLines makes a change to the lines of an invoice.
func (f *fold) changeLines(invoiceID string, where []choice, set ...value) {
	c := change{of: []reference{{byInvoice, invoiceID}}, where: where, set: set}
	changeAll(f, &f.TimeEntries, c)
	changeAll(f, &f.Charges, c)
}
