package anomaly

import (
	"fmt"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// OnlyFirst explains figures that count only the first MostGrouped anomalies.
func OnlyFirst() string {
	return fmt.Sprintf("There are more than %d: only the first of them are counted, by workspace and position, so that these figures are the least, and others may be missing.", MostGrouped)
}

// Name is what people call a reason.
func Name(r domain.Reason) string {
	switch r {
	case domain.UnknownObject:
		return "Unknown object"
	case domain.Repeat:
		return "Repeated ID"
	case domain.Overdrawn:
		return "Below zero"
	case domain.UnknownDocument:
		return "Unknown document number"
	case domain.WrongKind:
		return "Invoice under a credit note's ID"
	case domain.WrongCurrency:
		return "Wrong currency"
	case domain.Unreadable:
		return "Unreadable entry"
	}
	return string(r)
}

// Explain says what a reason means and what can be done about it.
func Explain(r domain.Reason) string {
	switch r {
	case domain.UnknownObject:
		return "The entry is about something that does not exist in this workspace, or was deleted. " +
			"If it was only late, append what it is about and then the entry again with another id."
	case domain.Repeat:
		return "The entry repeats an id that was there before, so it has no effect. Nothing is to be done unless the producer meant something new, which needs an id of its own."
	case domain.Overdrawn:
		return "An amount or hours would have fallen below zero and became zero instead. Compare the producer's books with the row."
	case domain.UnknownDocument:
		return "The entry names a document number that its invoice does not have, so it has no effect. Append it again with the right number and another id."
	case domain.WrongKind:
		return "An invoice was recorded under the id of a credit note, so it has no effect. The producer has to use another id."
	case domain.WrongCurrency:
		return "The entry has another currency than the client's credit, so it has no effect. Amounts of two currencies are not mixed."
	case domain.Unreadable:
		return "A newer version of the program wrote the entry, and this one cannot read it. After an upgrade of this program the read models are rebuilt with it."
	}
	return "This version of the program does not know the reason."
}
