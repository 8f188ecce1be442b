package domain

// Time entries and charges are the lines of an invoice.

// The states that lines have and invoices have not.
const (
	lineInReview = "in_review"
	lineApproved = "approved"
	lineDeclined = "declined"
)

// LineStatuses returns the states of time entries and charges.
func LineStatuses() []string {
	return []string{lineInReview, lineApproved, lineDeclined, statusSent, statusPaid}
}

// The fields of a line that the documents of its invoice change.
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
