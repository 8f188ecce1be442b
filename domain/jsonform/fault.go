package jsonform

import (
	"fmt"
	"strings"
)

// A FieldError says which field of a decoded object is wrong, and which form is
// wanted.
type FieldError struct {
	Field string // its path: "data.contacts[2].email"
	Fault string // "is missing", "is given twice", "is not known", "has the wrong form"
	Want  string // the form wanted; empty where Fault says it all
}

// Error names the field, the fault and the form wanted.
func (e FieldError) Error() string {
	field := e.Field
	if cut := []rune(field); len(cut) > maxFieldShown {
		field = string(cut[:maxFieldShown]) + "…"
	}
	if e.Want == "" {
		return field + " " + e.Fault
	}
	return field + " " + e.Fault + ": want " + e.Want
}

// FieldErrors are all the faults of one object, in the order of its text; the
// missing fields of an object follow its other faults.
type FieldErrors []FieldError

// An object may hold thousands of faults, and names as long as itself; error
// messages are cut to what a person can read.
const (
	maxFaultsShown = 20
	maxFieldShown  = 200 // characters
)

// Error joins the faults; of very many it shows the first.
func (e FieldErrors) Error() string {
	shown := e[:min(len(e), maxFaultsShown)]
	parts := make([]string, len(shown), len(shown)+1)
	for i, f := range shown {
		parts[i] = f.Error()
	}
	switch more := len(e) - len(shown); more {
	case 0:
	case 1:
		parts = append(parts, "and 1 more fault")
	default:
		parts = append(parts, fmt.Sprintf("and %d more faults", more))
	}
	return strings.Join(parts, "; ")
}

// Unknown adds a field, or the value of one, that is not known; want says which
// are.
func (e *FieldErrors) Unknown(field, want string) { e.add(field, "is not known", want) }

// WrongForm adds a field whose value has another form than want.
func (e *FieldErrors) WrongForm(field, want string) { e.add(field, "has the wrong form", want) }

func (e *FieldErrors) missing(field, want string) { e.add(field, "is missing", want) }

func (e *FieldErrors) twice(field string) { e.add(field, "is given twice", "") }

func (e *FieldErrors) add(field, fault, want string) {
	*e = append(*e, FieldError{Field: field, Fault: fault, Want: want})
}
