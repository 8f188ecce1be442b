package reference

import (
	"fmt"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// group holds the operations under one heading.
type group struct {
	Name       string
	Operations []operation
}

// operation is an endpoint.
type operation struct {
	ID, Path, Summary, Description string

	Permission access.Permission // empty: any valid key
	More       []string          // permissions that add fields
	Params     []param
	Object     *object // what it returns, or the rows of its list; nil: see Example
	List       bool
	Samples    []sample
	Example    string // of an answer
}

// param is a parameter.
type param struct{ Name, Values, Description string }

func groups(base string) ([]group, error) {
	var list []group
	for _, r := range route.Table() {
		o, err := newOperation(&r, base)
		if err != nil {
			return nil, err
		}
		if n := len(list); n == 0 || list[n-1].Name != r.Group {
			list = append(list, group{Name: r.Group})
		}
		last := &list[len(list)-1]
		last.Operations = append(last.Operations, *o)
	}
	return list, nil
}

func newOperation(r *route.Route, base string) (*operation, error) {
	example := openapi.Example(r)
	if !r.OfTree() {
		var err error
		if example, err = indent(example); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Path, err)
		}
	}
	o := &operation{
		ID: r.Operation, Path: r.Path, Summary: r.Summary, Description: openapi.DescriptionOf(r), Permission: r.Permission,
		Object: objectOf(r), List: r.Kind == route.Rows || r.Kind == route.Events, Example: example,
	}
	if r.Resource != nil {
		for _, part := range openapi.Parts() {
			if r.Resource.Has(part) {
				o.More = append(o.More, string(openapi.PermissionOf(part)))
			}
		}
	}
	if r.HasID() {
		o.Params = append(o.Params, param{Name: "id", Values: "in the path", Description: "The id of the " + openapi.IDLabel(r) + "."})
	}
	for _, v := range r.Variables() {
		o.Params = append(o.Params, param{Name: v.Name, Values: "in the path", Description: v.Description})
	}
	for i := range r.Params {
		p := &r.Params[i]
		o.Params = append(o.Params, param{Name: p.Name, Values: valuesOf(p), Description: p.Description})
	}
	var err error
	o.Samples, err = samples(r, base)
	return o, err
}

// valuesOf says which values a parameter takes.
func valuesOf(p *route.Param) string {
	switch p.Form {
	case route.FormLimit:
		return fmt.Sprintf("1 to %d, %d by default", route.MaxLimit, route.DefaultLimit)
	case route.FormCursor:
		return "next_cursor of the page before"
	case route.FormTime:
		return "timestamp"
	case route.FormPeriod:
		return "period"
	case route.FormID:
		return "id"
	case route.FormDateFrom, route.FormDateTo:
		return "date"
	case route.FormGroups:
		return "one or two of " + strings.Join(p.Values, ", ")
	case route.FormEnum, route.FormInclude, route.FormOpen:
		return strings.Join(p.Values, ", ")
	}
	return ""
}
