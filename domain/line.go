package domain

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
