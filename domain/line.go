package domain

import "slices"

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

// line is what an invoice's documents change in a time entry or a charge.
type line struct {
	status, issuedNumber *string
}

// moveTo changes the status of a line that has one of those in from, and reports
// whether it did.
func (l line) moveTo(status string, from ...string) bool {
	if !slices.Contains(from, *l.status) {
		return false
	}
	*l.status = status
	return true
}

// changeLines calls set with each line of an invoice, and marks those changed for
// which it returns true.
func (f *fold) changeLines(invoiceID string, set func(line) bool) {
	f.TimeEntries.change(f.stamp, byInvoice, invoiceID, func(r *TimeEntry) bool {
		return set(line{&r.Status, &r.IssuedInvoiceNumber})
	})
	f.Charges.change(f.stamp, byInvoice, invoiceID, func(r *Charge) bool {
		return set(line{&r.Status, &r.IssuedInvoiceNumber})
	})
}
