package route

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Page sizes, in rows (docs/contract/service.md, "Limits").
const (
	DefaultLimit = 50
	MaxLimit     = 100
)

// Param is one query parameter of an endpoint.
type Param struct {
	Name        string
	Form        Form
	Values      []string // the allowed values, of forms that list them
	Enum        string   // the name of Values as a schema of the OpenAPI document
	Column      string   // column of the read table that must equal the value; empty: it does not filter rows
	Description string
	Example     string
}

// Form is the form that a parameter's value must have.
type Form int

// The forms of parameters.
const (
	FormLimit  Form = iota + 1 // a page size
	FormCursor                 // next_cursor of an earlier page
	FormTime
	FormPeriod
	FormID
	FormEnum
	FormInclude  // what a list shows in addition to its rows: one of Values
	FormDateFrom // the first day that a row may be of
	FormDateTo   // the last one
	FormOpen     // whether invoices are open: one of Values
	FormGroups   // what totals are by: up to MaxGroups of Values
)

// MaxGroups is how many values a parameter of FormGroups may have.
const MaxGroups = 2

// Fault returns what is wrong with a value that is not empty, as a text for callers; empty:
// nothing. It does not check cursors, which depend on the request's other parameters.
func (p *Param) Fault(value string) string {
	switch p.Form {
	case FormLimit:
		if _, ok := ParseLimit(value); !ok {
			return "must be a whole number from 1 to " + strconv.Itoa(MaxLimit)
		}
	case FormTime:
		if _, ok := domain.ParseTime(value); !ok {
			return "must be a date-time such as 2026-10-02T09:15:00Z or 2026-10-02T11:15:00.120+02:00; write the + of an offset as %2B"
		}
	case FormPeriod:
		if _, ok := domain.Period(value); !ok {
			return "must be " + domain.FormPeriod.Description()
		}
	case FormID:
		if !domain.IsID(value) {
			return "must be " + domain.FormID.Description()
		}
	case FormDateFrom, FormDateTo:
		if _, ok := domain.FormDate.CanonicalText(value); !ok {
			return "must be " + domain.FormDate.Description()
		}
	case FormGroups:
		groups := strings.Split(value, ",")
		for i, g := range groups {
			if !slices.Contains(p.Values, g) || slices.Contains(groups[:i], g) || i == MaxGroups {
				return "must be one or two different ones of " + strings.Join(p.Values, ", ") + ", separated by a comma"
			}
		}
	case FormEnum, FormInclude, FormOpen:
		if !slices.Contains(p.Values, value) {
			return "must be one of " + strings.Join(p.Values, ", ")
		}
	case FormCursor:
	}
	return ""
}

// ParseLimit reads a page size from 1 to MaxLimit: digits alone, without leading
// zeros.
func ParseLimit(value string) (int, bool) {
	if value == "" || len(value) > 3 || value[0] == '0' {
		return 0, false
	}
	n := 0
	for i := range len(value) {
		if value[i] < '0' || value[i] > '9' {
			return 0, false
		}
		n = n*10 + int(value[i]-'0')
	}
	return n, n <= MaxLimit
}
