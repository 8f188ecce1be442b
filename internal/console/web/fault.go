package web

import "github.com/ledgerfeed/ledgerfeed/internal/console/label"

// Faults are what is wrong with a form, by the id of the field; what concerns the form
// as a whole is under "form".
type Faults map[string]string

// fault is a line of the summary over a form.
type fault struct {
	Field string // the id of the element that the line leads to; empty: none
	Label string
	Text  string
}

// summary is every fault of a form in the order of its fields, given as id, label, id,
// label, and so on.
func (f Faults) summary(fields ...string) []fault {
	var list []fault
	if text := f["form"]; text != "" {
		list = append(list, fault{Text: text})
	}
	for i := 0; i+1 < len(fields); i += 2 {
		if text := f[fields[i]]; text != "" {
			list = append(list, fault{Field: fields[i], Label: fields[i+1], Text: text})
		}
	}
	return list
}

// faultSummary is Faults.summary for templates.
func faultSummary(f Faults, fields ...string) []fault { return f.summary(fields...) }

// firstFault is the field that has the focus when the form is shown again: the first
// one with a fault. Empty: none.
func firstFault(list []fault) string {
	for _, f := range list {
		if f.Field != "" {
			return f.Field
		}
	}
	return ""
}

// faultCount says how many lines the summary has, as its title.
func faultCount(list []fault) string {
	return "Nothing was saved: correct " + label.Plural(len(list), "fault", "faults")
}
