package anomaly

import (
	"cmp"
	"fmt"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// OnlyFirst explains figures that count only the first MostGrouped anomalies.
func OnlyFirst() string {
	return fmt.Sprintf("There are more than %d: only the first of them are counted, by workspace and position, so that these figures are the least, and others may be missing.", MostGrouped)
}

// Name is what people call a reason.
func Name(r domain.Reason) string { return cmp.Or(names[r], string(r)) }

// names has what people call each reason.
//
//nolint:gochecknoglobals // a constant table
var names = map[domain.Reason]string{
	domain.UnknownObject:   "Unknown object",
	domain.Repeat:          "Repeated ID",
	domain.Overdrawn:       "Below zero",
	domain.UnknownDocument: "Unknown document number",
	domain.WrongKind:       "Invoice under a credit note's ID",
	domain.WrongCurrency:   "Wrong currency",
	domain.Unreadable:      "Unreadable entry",
}

// Explain says what a reason means and what can be done about it.
func Explain(r domain.Reason) string {
	return cmp.Or(meanings[r], "This version of the program does not know the reason.")
}

// meanings has what each reason means.
//
//nolint:gochecknoglobals // a constant table
var meanings = map[domain.Reason]string{
	domain.UnknownObject: "The entry is about something that does not exist in this workspace, or was deleted. " +
		"If that was only late, append the missing object first. Then append this entry again with a new ID.",
	domain.Repeat:          "The entry repeats an ID that was there before, so it has no effect. Do nothing, unless the producer meant something new: that needs an ID of its own.",
	domain.Overdrawn:       "An amount or hours would have fallen below zero and became zero instead. Compare the producer's books with the row.",
	domain.UnknownDocument: "The entry names a document number that its invoice does not have, so it has no effect. Append it again with the right number and a new ID.",
	domain.WrongKind:       "An invoice was recorded under the ID of a credit note, so it has no effect. The producer has to use another ID.",
	domain.WrongCurrency:   "The entry has another currency than the client's credit, so it has no effect. Amounts of two currencies are not mixed.",
	domain.Unreadable:      "A newer version of the program wrote the entry, and this one cannot read it. After an upgrade of this program the read models are rebuilt with it.",
}
