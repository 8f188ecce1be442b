package label

import "github.com/ledgerfeed/ledgerfeed/domain"

// Change says what an event of a type changes (docs/contract/log.md, "Catalogue").
func Change(typ string) string {
	switch typ {
	case "invoice.issued":
		return "Adds the document to the invoice, and its number to those of the invoice's time entries and charges that had none."
	case "invoice.sent":
		return "Marks the document as sent; if the event names none, every issued document. The invoice, unless it is paid, and its approved time entries and charges become sent too."
	case "invoice.paid":
		return "Marks the document as paid; if the event names none, every document that is not voided. When all are paid, the invoice and its approved or sent time entries and charges become paid too."
	case "invoice.voided":
		return "Marks the document as voided and takes its number from time entries and charges. When no other document is left, the invoice is ready to send again, and its sent or paid time entries and charges are approved again."
	case "invoice.reversed":
		return "Marks the invoice as reversed."
	case "credit_note.issued":
		return "Adds the credit note to the invoices."
	case "payout.paid":
		return "Adds the payment. Where it names an invoice, the contractor is paid for that invoice and for their time entries on it."
	case "period.closed":
		return "Closes the period, for every client or for one. Its invoices say so."
	case "time_entry.approved":
		return "Sets the time entry's status to approved, and its invoice if the event names one."
	case "time_entry.declined":
		return "Sets the time entry's status to declined, with what is to happen next (its decline outcome)."
	case "time_entry.deleted":
		return "Takes the time entry out of the lists."
	case "charge.created":
		return "Adds the charge."
	case "charge.deleted":
		return "Takes the charge out of the lists."
	case "credit.applied":
		return "Takes the amount from the client's credit. The invoice has less left to pay."
	case "credit.taken_back":
		return "Gives the amount back to the client's credit. The invoice has more left to pay."
	case domain.TypeTestPing:
		return "Changes nothing: it is a test."
	}
	return ""
}

// Rows is a number of rows of a resource, such as "2 time entries".
func Rows(resource string, n int) string {
	switch resource {
	case "time-entries":
		return Plural(n, "time entry", "time entries")
	case "credit":
		return Plural(n, "client's credit", "clients' credits")
	}
	return Plural(n, resource[:len(resource)-1], resource)
}
