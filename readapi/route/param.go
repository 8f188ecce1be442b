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
	Values      []string // FormEnum and FormInclude: the allowed values
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
	FormInclude // what a list shows in addition to its rows: one of Values
)

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
	case FormEnum, FormInclude:
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
