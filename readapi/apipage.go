package readapi

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

//go:embed apipage.html
var apiPageHTML string

// DescribePage writes the description of the API as a page for people, from the
// same routes and fields as Describe. It needs nothing from elsewhere: no script,
// font or picture.
func DescribePage(d Description) ([]byte, error) {
	page, err := template.New("api page").Parse(apiPageHTML)
	if err != nil {
		return nil, fmt.Errorf("readapi: read the template of the API's page: %w", err)
	}
	r, err := newAPIPage(d)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := page.Execute(&b, r); err != nil {
		return nil, fmt.Errorf("readapi: write the API's page: %w", err)
	}
	return b.Bytes(), nil
}

// apiPage is what the page shows.
type apiPage struct {
	Description

	Intro  []pageWords
	Groups []pageGroup
	Errors []pageError
}

// pageWords is a paragraph, with a heading of its own or none.
type pageWords struct{ Heading, Text string }

type pageGroup struct {
	Name   string
	Routes []pageRoute
}

type pageRoute struct {
	Operation, Pattern, Summary, Description string

	Permission access.Permission
	Params     []pageField
	Fields     []pageField
	Example    string
}

// pageField is a parameter or a field; that of an object within has the
// names of both.
type pageField struct{ Name, Form, Needs, Words string }

type pageError struct {
	Status int
	Title  string
	Words  string
}

func newAPIPage(d Description) (*apiPage, error) {
	r := &apiPage{Description: d}
	for paragraph := range strings.SplitSeq(apiWords, "\n\n") {
		r.Intro = append(r.Intro, splitHeading(paragraph))
	}
	s := &schemas{known: map[string]bool{}}
	for _, route := range routeTable() {
		_, example := s.ofRoute(route)
		shown, err := newPageRoute(route, example)
		if err != nil {
			return nil, err
		}
		if n := len(r.Groups); n == 0 || r.Groups[n-1].Name != route.group {
			r.Groups = append(r.Groups, pageGroup{Name: route.group})
		}
		last := &r.Groups[len(r.Groups)-1]
		last.Routes = append(last.Routes, *shown)
	}
	for _, status := range []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusTooManyRequests, statusInvalidHeaders, http.StatusInternalServerError, http.StatusServiceUnavailable,
	} {
		r.Errors = append(r.Errors, pageError{status, titleOf(status), errorWords(status)})
	}
	return r, nil
}

// splitHeading reads a paragraph that may begin with its heading between stars.
func splitHeading(paragraph string) pageWords {
	if rest, ok := strings.CutPrefix(paragraph, "**"); ok {
		heading, text, _ := strings.Cut(rest, "**")
		return pageWords{heading, text}
	}
	return pageWords{Text: paragraph}
}

func newPageRoute(r *route, example string) (*pageRoute, error) {
	var indented bytes.Buffer
	if err := json.Indent(&indented, []byte(example), "", "  "); err != nil {
		return nil, fmt.Errorf("readapi: indent the example of %s: %w", r.pattern, err)
	}
	shown := &pageRoute{
		Operation: r.operation, Pattern: r.pattern, Summary: r.summary, Description: r.description,
		Permission: r.permission, Example: indented.String(),
	}
	if strings.Contains(r.pattern, "{id}") {
		shown.Params = append(shown.Params, pageField{Name: "id", Form: "in the path", Words: "The id of the " + idOf(r) + "."})
	}
	for i := range r.params {
		p := &r.params[i]
		shown.Params = append(shown.Params, pageField{Name: p.name, Form: p.words(), Words: p.doc})
	}
	if r.resource != nil {
		shown.Fields = appendFields(nil, "", r.resource.fields)
	}
	if r.shape == shapeCredit {
		shown.Fields = appendFields(appendFields(nil, "", domain.CreditFields()), "history[].", domain.CreditMoveFields())
	}
	return shown, nil
}

// words says which values a parameter takes.
func (p *param) words() string {
	switch p.form {
	case formLimit:
		return fmt.Sprintf("1 to %d, %d by default", maxLimit, defaultLimit)
	case formCursor:
		return "next_cursor of the page before"
	case formTime:
		return "date-time"
	case formPeriod:
		return domain.FormPeriod.Description()
	case formID:
		return "id"
	case formEnum:
		return strings.Join(p.values, ", ")
	}
	return ""
}

// appendFields adds fields and, after each, those of the objects within it.
func appendFields(list []pageField, within string, fields []jsonform.FieldDescription) []pageField {
	for i := range fields {
		f := &fields[i]
		shown := pageField{Name: within + f.Name, Form: f.Form.Description(), Needs: string(permissionOf(f.Part)), Words: fieldWords(f)}
		switch f.Form {
		case domain.FormEnum:
			shown.Form = strings.Join(f.Values, ", ")
		case domain.FormText:
			shown.Form = "text"
		default:
		}
		if f.Nullable {
			shown.Form += "; or null"
		}
		inner := shown.Name + "."
		if f.Form == domain.FormArray {
			inner = shown.Name + "[]."
		}
		list = appendFields(append(list, shown), inner, f.Fields)
	}
	return list
}
