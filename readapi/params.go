package readapi

import (
	"slices"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// maxParams is the most parameters that an endpoint may have.
const maxParams = 9

// parsedParams are the values of an endpoint's parameters, by their index in its
// table. Where an index is asked for, -1 is a parameter that the endpoint lacks.
type parsedParams struct {
	given  uint // bit i: parameter i was given
	values [maxParams]string
}

func (p *parsedParams) has(i int) bool { return i >= 0 && p.given&(1<<i) != 0 }

// get returns a parameter's value, empty if it was not given.
func (p *parsedParams) get(i int) string {
	if !p.has(i) {
		return ""
	}
	return p.values[i]
}

// time returns a date-time parameter, the zero time if it was not given.
func (p *parsedParams) time(i int) time.Time {
	t, _ := domain.ParseTime(p.get(i))
	return t
}

// limit returns the page size.
func (p *parsedParams) limit(i int) int {
	if n, ok := route.ParseLimit(p.get(i)); ok {
		return n
	}
	return route.DefaultLimit
}

// parse reads a query by an endpoint's parameters. It returns every fault, one for
// each parameter, in the order of the query (docs/contract/decisions.md, "Requests",
// 8), except those of cursors, which depend on all other parameters. After
// answer.MaxParamErrors faults the rest of the query is not looked at.
func (p *parsedParams) parse(params []route.Param, query string) []answer.ParamError {
	var errs []answer.ParamError
	for pair := range queryPairs(query) {
		if len(errs) == answer.MaxParamErrors {
			break
		}
		if !pair.decoded {
			errs = addError(errs, pair.name, "is not decodable: after % come two hexadecimal digits")
			continue
		}
		i := slices.IndexFunc(params, func(p route.Param) bool { return p.Name == pair.name })
		switch {
		case i < 0:
			errs = addError(errs, pair.name, unknownParam(params))
		case p.has(i):
			errs = addError(errs, pair.name, "is given more than once")
		default:
			p.given |= 1 << i
			p.values[i] = pair.value
			if pair.value == "" {
				errs = addError(errs, pair.name, "must not be empty; leave it out instead")
			} else if fault := params[i].Fault(pair.value); fault != "" {
				errs = addError(errs, pair.name, fault)
			}
		}
	}
	return errs
}

func unknownParam(params []route.Param) string {
	if len(params) == 0 {
		return "is not a parameter of this endpoint, which has none"
	}
	names := make([]string, len(params))
	for i := range params {
		names[i] = params[i].Name
	}
	return "is not a parameter of this endpoint, which has " + strings.Join(names, ", ")
}

// addError adds a fault unless the parameter has one already or there are enough.
func addError(errs []answer.ParamError, field, message string) []answer.ParamError {
	if len(errs) == answer.MaxParamErrors || slices.ContainsFunc(errs, func(e answer.ParamError) bool { return e.Field == field }) {
		return errs
	}
	return append(errs, answer.ParamError{Field: field, Message: message})
}
