package openapi

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
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

//go:embed page.html
var pageTemplate string

// Page writes the description of the API as an HTML page for people, from the same
// routes and fields as Document. It loads nothing from elsewhere: no script, font
// or picture.
func Page(info Info) ([]byte, error) {
	parsed, err := template.New("api page").Parse(pageTemplate)
	if err != nil {
		return nil, fmt.Errorf("read the template of the API's page: %w", err)
	}
	shown, err := newPage(info)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := parsed.Execute(&b, shown); err != nil {
		return nil, fmt.Errorf("write the API's page: %w", err)
	}
	return b.Bytes(), nil
}

// page is what the page shows.
type page struct {
	Info

	Intro  []pageParagraph
	Groups []pageGroup
	Errors []pageError
}

// pageParagraph is a paragraph; its heading may be empty.
type pageParagraph struct{ Heading, Text string }

type pageGroup struct {
	Name   string
	Routes []pageRoute
}

type pageRoute struct {
	Operation, Path, Summary, Description string

	Permission access.Permission
	Params     []pageField
	Fields     []pageField
	Example    string
}

// pageField is a parameter or a field. The name of a field of an inner object
// begins with that object's, such as client.id.
type pageField struct{ Name, Form, Needs, Description string }

type pageError struct {
	Status      int
	Title       string
	Description string
}

func newPage(info Info) (*page, error) {
	p := &page{Info: info}
	for paragraph := range strings.SplitSeq(introduction, "\n\n") {
		p.Intro = append(p.Intro, splitHeading(paragraph))
	}
	s := newSchemas()
	for _, r := range route.Table() {
		_, example := s.response(&r)
		shown, err := newPageRoute(&r, example)
		if err != nil {
			return nil, err
		}
		if n := len(p.Groups); n == 0 || p.Groups[n-1].Name != r.Group {
			p.Groups = append(p.Groups, pageGroup{Name: r.Group})
		}
		last := &p.Groups[len(p.Groups)-1]
		last.Routes = append(last.Routes, *shown)
	}
	for _, status := range []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge, http.StatusInternalServerError, http.StatusServiceUnavailable,
	} {
		p.Errors = append(p.Errors, pageError{status, answer.Title(status), errorDescription(status)})
	}
	return p, nil
}

// splitHeading reads a paragraph that may begin with its heading between stars.
func splitHeading(paragraph string) pageParagraph {
	if rest, ok := strings.CutPrefix(paragraph, "**"); ok {
		heading, text, _ := strings.Cut(rest, "**")
		return pageParagraph{heading, text}
	}
	return pageParagraph{Text: paragraph}
}

func newPageRoute(r *route.Route, example string) (*pageRoute, error) {
	var indented bytes.Buffer
	if err := json.Indent(&indented, []byte(example), "", "  "); err != nil {
		return nil, fmt.Errorf("indent the example of %s: %w", r.Path, err)
	}
	shown := &pageRoute{
		Operation: r.Operation, Path: r.Path, Summary: r.Summary, Description: r.Description,
		Permission: r.Permission, Example: indented.String(),
	}
	if r.HasID() {
		shown.Params = append(shown.Params, pageField{Name: "id", Form: "in the path", Description: "The id of the " + idLabel(r) + "."})
	}
	for i := range r.Params {
		p := &r.Params[i]
		shown.Params = append(shown.Params, pageField{Name: p.Name, Form: valuesOf(p), Description: p.Description})
	}
	if r.Resource != nil {
		shown.Fields = appendFields(nil, "", r.Resource.Fields)
	}
	if r.Kind == route.Credit {
		shown.Fields = appendFields(appendFields(nil, "", domain.CreditFields()), "history[].", domain.CreditMoveFields())
	}
	return shown, nil
}

// valuesOf says which values a parameter takes.
func valuesOf(p *route.Param) string {
	switch p.Form {
	case route.FormLimit:
		return fmt.Sprintf("1 to %d, %d by default", route.MaxLimit, route.DefaultLimit)
	case route.FormCursor:
		return "next_cursor of the page before"
	case route.FormTime:
		return "date-time"
	case route.FormPeriod:
		return domain.FormPeriod.Description()
	case route.FormID:
		return "id"
	case route.FormEnum, route.FormInclude:
		return strings.Join(p.Values, ", ")
	}
	return ""
}

// appendFields adds fields, each followed by those of the objects in it. prefix is
// what all names begin with.
func appendFields(list []pageField, prefix string, fields []jsonform.FieldDescription) []pageField {
	for i := range fields {
		f := &fields[i]
		shown := pageField{Name: prefix + f.Name, Form: f.Form.Description(), Needs: string(permissionOf(f.Part)), Description: fieldDescription(f)}
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
