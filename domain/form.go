package domain

import (
	"fmt"
	"strings"
)

// Form is the form that a field's value must have (docs/contract/log.md, "Forms used below").
type Form int

// The forms of the log contract and of the service's answers.
const (
	FormID Form = iota + 1
	FormText
	FormEnum // text out of Field.Values
	FormMoney
	FormSignedMoney
	FormCurrency
	FormDate
	FormDateTime
	FormPeriod
	FormHours
	FormNumber
	FormInteger
	FormBool
	FormObject
	FormArray
)

// words says what is wanted, for error messages and documentation.
func (f Form) words() string {
	switch f {
	case FormID:
		return "an id: 1 to 64 of A-Z a-z 0-9 _ -"
	case FormText, FormEnum: // Field.want lists the values of an enum
		return "a text of 1 to 4096 characters without control characters other than newline and tab"
	case FormMoney:
		return `money: a string of 1 to 12 digits, a point and 2 digits, such as "420.00"`
	case FormSignedMoney:
		return `money: a string of 1 to 12 digits, a point and 2 digits, such as "420.00" or "-3.50"`
	case FormCurrency:
		return `a currency: a string of three capital letters, such as "EUR"`
	case FormDate:
		return "a date: YYYY-MM-DD, a real day"
	case FormDateTime:
		return "a date-time: RFC 3339 with an offset, such as 2026-10-02T09:15:00.120Z"
	case FormPeriod:
		return PeriodForm
	case FormHours:
		return "hours: a number from 0, at most 14 digits before the point and 4 decimals"
	case FormNumber:
		return "a number of at most 14 digits before the point and 4 decimals"
	case FormInteger:
		return "a whole number from 0 to 9223372036854775807"
	case FormBool:
		return "true or false"
	case FormObject:
		return "an object"
	case FormArray:
		return "an array"
	}
	return "a value"
}

// A FormError says which field of an entry is wrong, and which form is wanted.
type FormError struct {
	Field string // path inside the entry: "data.contacts[2].email"
	Fault string // "is missing", "is given twice", "is not known", "has the wrong form"
	Want  string // the form wanted; empty where Fault says it all
}

// Error names the field, the fault and the form wanted.
func (e FormError) Error() string {
	field := e.Field
	if cut := []rune(field); len(cut) > maxFieldShown {
		field = string(cut[:maxFieldShown]) + "…"
	}
	if e.Want == "" {
		return field + " " + e.Fault
	}
	return field + " " + e.Fault + ": want " + e.Want
}

// FormErrors are all the faults of one entry.
type FormErrors []FormError

// An entry may hold thousands of faults and names as long as itself; a message
// about it is for people.
const (
	maxFaultsShown = 20
	maxFieldShown  = 200 // characters
)

// Error joins the faults, of very many the first.
func (e FormErrors) Error() string {
	shown := e[:min(len(e), maxFaultsShown)]
	parts := make([]string, len(shown), len(shown)+1)
	for i, f := range shown {
		parts[i] = f.Error()
	}
	if more := len(e) - len(shown); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more faults", more))
	}
	return strings.Join(parts, "; ")
}

// The faults a field can have.
const (
	faultMissing = "is missing"
	faultTwice   = "is given twice"
	faultUnknown = "is not known"
	faultForm    = "has the wrong form"
)

func (e *FormErrors) add(field, fault, want string) {
	*e = append(*e, FormError{Field: field, Fault: fault, Want: want})
}
