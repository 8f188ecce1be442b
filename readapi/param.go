package readapi

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Page sizes (docs/contract/service.md, "Limits").
const (
	defaultLimit = 50
	maxLimit     = 100
)

// paramForm is the form that a query parameter's value must have.
type paramForm int

const (
	formLimit paramForm = iota + 1
	formCursor
	formTime
	formPeriod
	formID
	formEnum
)

// param is one query parameter of an endpoint.
type param struct {
	name    string
	form    paramForm
	values  []string // formEnum: no others are taken
	column  string   // the column of the read table that it filters; empty: it is no such filter
	doc     string
	example string
}

// check tells what is wrong with a value that is not empty, in words for the
// caller; empty: nothing. Cursors are checked by themselves, because they depend
// on all other parameters.
func (p *param) check(value string) string {
	switch p.form {
	case formLimit:
		if _, ok := parseLimit(value); !ok {
			return "must be a whole number from 1 to " + strconv.Itoa(maxLimit)
		}
	case formTime:
		if _, ok := domain.ParseTime(value); !ok {
			return "must be a date-time such as 2026-10-02T09:15:00Z or 2026-10-02T11:15:00.120+02:00; write the + of an offset as %2B"
		}
	case formPeriod:
		if _, ok := domain.Period(value); !ok {
			return "must be " + domain.FormPeriod.Description()
		}
	case formID:
		if !domain.IsID(value) {
			return "must be " + domain.FormID.Description()
		}
	case formEnum:
		if !slices.Contains(p.values, value) {
			return "must be one of " + strings.Join(p.values, ", ")
		}
	case formCursor:
	}
	return ""
}

// parseLimit reads a page size: digits alone, without leading zeros.
func parseLimit(value string) (int, bool) {
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
	return n, n <= maxLimit
}

// maxParams is more parameters than any endpoint has.
const maxParams = 12

// given is the values of an endpoint's parameters, by their place in its table.
type given struct {
	set    uint // bit i: parameter i was given
	values [maxParams]string
}

func (g *given) has(i int) bool { return i >= 0 && g.set&(1<<i) != 0 }

// get returns a parameter's value, empty when it was not given.
func (g *given) get(i int) string {
	if !g.has(i) {
		return ""
	}
	return g.values[i]
}

// maxNamedParams is how many wrong parameters one answer names. It is more than
// anybody gets wrong by mistake; a query of thousands of made-up names would
// otherwise be answered with a hundred times its own size.
const maxNamedParams = 100

// readParams reads a query by an endpoint's parameters. All that is wrong comes
// back at once, one row for a parameter, in the order of the query (but for the
// cursor, which is judged when all others are known)
// (docs/contract/decisions.md, "Requests", 8). Once there are maxNamedParams rows the rest of
// the query is not looked at.
func readParams(params []param, query string) (given, []paramError) {
	var (
		g    given
		errs []paramError
	)
	for pair := range queryPairs(query) {
		if len(errs) == maxNamedParams {
			break
		}
		if !pair.decoded {
			errs = addError(errs, pair.name, "is not decodable: after % come two hexadecimal digits")
			continue
		}
		i := slices.IndexFunc(params, func(p param) bool { return p.name == pair.name })
		switch {
		case i < 0:
			errs = addError(errs, pair.name, unknownParam(params))
		case g.has(i):
			errs = addError(errs, pair.name, "is given more than once")
		default:
			g.set |= 1 << i
			g.values[i] = pair.value
			if pair.value == "" {
				errs = addError(errs, pair.name, "must not be empty; leave it out instead")
			} else if problem := params[i].check(pair.value); problem != "" {
				errs = addError(errs, pair.name, problem)
			}
		}
	}
	return g, errs
}

func unknownParam(params []param) string {
	if len(params) == 0 {
		return "is not a parameter of this endpoint, which has none"
	}
	names := make([]string, len(params))
	for i := range params {
		names[i] = params[i].name
	}
	return "is not a parameter of this endpoint, which has " + strings.Join(names, ", ")
}

// addError adds a row for a parameter unless it has one already or there are
// enough.
func addError(errs []paramError, field, message string) []paramError {
	if len(errs) == maxNamedParams || slices.ContainsFunc(errs, func(e paramError) bool { return e.Field == field }) {
		return errs
	}
	return append(errs, paramError{Field: field, Message: message})
}

// time returns a date-time parameter, the zero time when it was not given.
func (g *given) time(i int) time.Time {
	t, _ := domain.ParseTime(g.get(i))
	return t
}

// limit returns the page size.
func (g *given) limit(i int) int {
	if n, ok := parseLimit(g.get(i)); ok {
		return n
	}
	return defaultLimit
}
