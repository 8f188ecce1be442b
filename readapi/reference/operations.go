package reference

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// objectPage is the data of a page about a kind of object and the operations that return it.
type objectPage struct {
	Path, Title, About string
	Objects            []*object
	Operations         []*operation
}

// operation is an endpoint.
type operation struct {
	ID, Path, Summary, Description string

	Permission access.Permission // empty: any valid key
	More       []string          // permissions that add fields
	Params     table             // without those of Paging
	Paging     table             // the parameters that all lists have
	Object     *object           // what it returns, or the rows of its list; nil: see Example
	Samples    []sample
	Example    string // of an answer
	Form       string // json, or text
}

// objectPages returns the pages about objects, in the order of the endpoints.
func objectPages(base string) ([]objectPage, error) {
	var list []objectPage
	at := func(path string) *objectPage {
		i := slices.IndexFunc(list, func(p objectPage) bool { return p.Path == path })
		if i < 0 {
			i = len(list)
			name := strings.NewReplacer("-", " ", "/", " of ").Replace(path)
			list = append(list, objectPage{Path: path, Title: strings.ToUpper(name[:1]) + name[1:]})
		}
		return &list[i]
	}
	shown := map[string]bool{}
	add := func(p *objectPage, o *object) {
		p.About = cmp.Or(p.About, o.About)
		if !shown[o.ID] {
			p.Objects = append(p.Objects, o)
		}
		shown[o.ID] = true
	}
	for _, r := range route.Table() {
		o, err := newOperation(&r, base)
		if err != nil {
			return nil, err
		}
		p := at(pathOf(&r))
		p.Operations = append(p.Operations, o)
		if o.Object != nil {
			add(p, o.Object)
		}
		p.About = cmp.Or(p.About, openapi.AboutGroup(r.Group))
	}
	removed, err := newObject("Removed row", "Stands for a row that has left a list; shown only with include=removed.", domain.TombstoneFields(), jsonform.ExampleOf(domain.TombstoneFields()))
	if err != nil {
		return nil, err
	}
	add(at("removed-rows"), removed)
	return list, nil
}

// pathOf returns the path of the page that an endpoint is on.
func pathOf(r *route.Route) string {
	switch {
	case r.OfTree():
		return "proof"
	case r.Kind == route.Credit:
		return "credits"
	case r.Kind == route.KeyInfo || r.Kind == route.Document:
		return "key"
	}
	path, _, _ := strings.Cut(strings.TrimPrefix(r.Path, "/v1/"), "/{id}")
	return path
}

func newOperation(r *route.Route, base string) (*operation, error) {
	example, form := openapi.Example(r), "text"
	if !r.OfTree() {
		form = "json"
		var err error
		if example, err = indent(example); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Path, err)
		}
	}
	o := &operation{
		ID: r.Operation, Path: r.Path, Summary: r.Summary, Description: openapi.DescriptionOf(r), Permission: r.Permission,
		Example: example, Form: form, Params: table{Head: "Parameter"}, Paging: table{Head: "Parameter"},
	}
	if r.Resource != nil {
		for _, part := range openapi.Parts() {
			if r.Resource.Has(part) {
				o.More = append(o.More, string(openapi.PermissionOf(part)))
			}
		}
	}
	add := func(t *table, name, values, meaning string) {
		t.Rows = append(t.Rows, row{ID: o.ID + "." + name, Name: name, Values: values, Meaning: meaning})
	}
	if r.HasID() {
		add(&o.Params, "id", "in the path", "The id of the "+openapi.IDLabel(r)+".")
	}
	for _, v := range r.Variables() {
		add(&o.Params, v.Name, "in the path", v.Description)
	}
	for i := range r.Params {
		p, t := &r.Params[i], &o.Params
		if p.Form == route.FormLimit || p.Form == route.FormCursor || p.Form == route.FormInclude {
			t = &o.Paging
		}
		add(t, p.Name, valuesOf(p), p.Description)
	}
	var err error
	if o.Object, err = objectOf(r); err != nil {
		return nil, err
	}
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
