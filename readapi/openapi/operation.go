package openapi

import (
	"encoding/json"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// pathItem describes GET of a path. HEAD and OPTIONS are the same everywhere: the introduction has them.
func (s *schemas) pathItem(r *route.Route) object {
	item := object{}
	if r.HasID() {
		item = item.with("parameters", []object{{
			{"name", "id"}, {"in", "path"}, {"required", true}, {"description", "The id of the " + IDLabel(r) + "."},
			{"schema", object{{"type", "string"}, {"minLength", 1}}}, {"example", IDExample(r)},
		}})
	}
	if list := variables(r); len(list) > 0 {
		item = item.with("parameters", list)
	}
	var schema object
	example := treeExample(r)
	if !r.OfTree() {
		schema, example = s.response(r)
	}
	return item.with("get", s.operation(r, schema, example))
}

// IDLabel names the kind of object whose id is in a route's path. A route without a resource of its
// own is about a client.
func IDLabel(r *route.Route) string {
	if r.Resource == nil {
		return "client"
	}
	return r.Resource.Label()
}

// IDExample returns an example of the id in a route's path.
func IDExample(r *route.Route) string {
	if r.Resource == nil {
		return "cl_4821"
	}
	return strings.Trim(r.Resource.Fields[0].Example, `"`)
}

// operation describes GET.
func (s *schemas) operation(r *route.Route, schema object, example string) object {
	described := object{{"operationId", r.Operation}, {"tags", []string{r.Group}}, {"summary", r.Summary}}
	description := DescriptionOf(r) + " " + permissionDescription(r)
	parameters := make([]any, 0, len(r.Params)+4)
	for i := range r.Params {
		parameters = append(parameters, s.parameter(&r.Params[i]))
	}
	if r.Kind == route.KeyInfo {
		parameters = append(parameters, requestID())
	}
	parameters = append(parameters, reference("parameters", "IfNoneMatch"))
	if r.HasPosition() {
		parameters = append(parameters, reference("parameters", "LogPositionAtLeast"))
	}
	if r.CanWait() {
		parameters = append(parameters, reference("parameters", "Prefer"))
	}
	ok := object{{"description", "Done."}, {"headers", answerHeaders(r)}}
	if r.IsList() {
		ok = withHeader(ok, answer.HeaderLink)
	}
	if r.Kind == route.Events {
		ok = withHeader(ok, answer.HeaderEventIndex)
	}
	if r.OfTree() {
		ok = ok.with("content", treeContent(r))
	} else {
		ok = ok.with("content", object{{"application/json", object{
			{"schema", schema},
			{"example", json.RawMessage(example)},
		}}})
	}
	return described.
		with("description", description).
		with("security", []object{{{"apiKey", scopesOf(r)}}}).
		with("parameters", parameters).
		with("responses", object{
			{"200", ok},
			{"304", object{{"description", "Nothing has changed since the answer with the ETag in If-None-Match."}}},
			{"default", reference("responses", "Error")},
		})
}

func scopesOf(r *route.Route) []string {
	if r.Permission == "" {
		return []string{}
	}
	return []string{string(r.Permission)}
}

func permissionDescription(r *route.Route) string {
	if r.Permission == "" {
		return "Needs no permission beyond a valid key."
	}
	description := "Needs " + string(r.Permission) + "."
	if r.Resource == nil {
		return description
	}
	for _, part := range Parts() {
		if r.Resource.Has(part) {
			description += " " + string(PermissionOf(part)) + " adds fields."
		}
	}
	return description
}

// Parts are the parts of rows that need a permission of their own.
func Parts() []jsonform.Part { return []jsonform.Part{domain.Pay, domain.Margin} }

// parameter describes a query parameter.
func (s *schemas) parameter(p *route.Param) object {
	schema := object{{"type", "string"}}
	var example any = p.Example
	switch p.Form {
	case route.FormLimit:
		schema = object{{"type", "integer"}, {"minimum", 1}, {"maximum", route.MaxLimit}, {"default", route.DefaultLimit}}
		example = route.DefaultLimit
	case route.FormCursor:
		schema = schema.with("minLength", 1)
	case route.FormTime:
		schema = schema.with("format", "date-time")
	case route.FormPeriod:
		schema = schema.with("pattern", domain.FormPeriod.Pattern())
	case route.FormID:
		schema = schema.with("pattern", domain.FormID.Pattern())
	case route.FormDateFrom, route.FormDateTo:
		schema = schema.with("format", "date")
	case route.FormEnum, route.FormInclude, route.FormOpen:
		schema = s.enumeration(p)
	case route.FormGroups:
		return object{
			{"name", p.Name}, {"in", "query"}, {"description", p.Description}, {"style", "form"}, {"explode", false},
			{"schema", object{
				{"type", "array"}, {"minItems", 1}, {"maxItems", route.MaxGroups}, {"uniqueItems", true},
				{"items", s.enumeration(p)},
			}},
			{"example", strings.Split(p.Example, ",")},
		}
	}
	described := object{{"name", p.Name}, {"in", "query"}, {"description", p.Description}, {"schema", schema}}
	if p.Form == route.FormCursor {
		return described // an example would be refused
	}
	return described.with("example", example)
}

// enumeration adds the schema of a parameter that takes listed values alone. It has a name, so that a
// generated client has one type for all operations that take the parameter.
func (s *schemas) enumeration(p *route.Param) object {
	return s.add(p.Enum, object{{"type", "string"}, {"enum", p.Values}})
}

// requestID describes a parameter of every request. It stands at one operation, with the headers of
// every answer (see headersOfAll).
func requestID() object {
	return object{
		{"name", answer.HeaderRequestID}, {"in", "header"},
		{"description", "An id of your own for this request, at every path: 1 to 64 of A-Z a-z 0-9 . _ -. Otherwise one is made."},
		{"schema", object{{"type", "string"}}}, {"example", "import-2026-10-02-0001"},
	}
}

func commonParameters() object {
	return object{
		{"IfNoneMatch", object{
			{"name", "If-None-Match"}, {"in", "header"},
			{"description", "ETags of answers that you have, or *."},
			{"schema", object{{"type", "string"}}}, {"example", `"0dGvpk6SZxbQXJ4s0W2q"`},
		}},
		{"LogPositionAtLeast", object{
			{"name", answer.HeaderAtLeast}, {"in", "header"},
			{"description", "The answer must show everything up to this position of the log, such as one that appending returned. If that is not visible yet, " +
				"the request waits for it, 5 seconds at most; then the answer is 503 with Retry-After. Given once, a whole number from 0 on; another form is a 400."},
			{"schema", object{{"type", "integer"}, {"format", "int64"}, {"minimum", 0}}}, {"example", 48213},
		}},
		{"Prefer", object{
			{"name", answer.HeaderPrefer}, {"in", "header"},
			{"description", "wait=N (RFC 7240), N from 1 to 30 seconds; more counts as 30. If there is nothing after the cursor, the answer is held until there is something that this key " +
				"and these filters show, or the time is over; then it is a page without rows. A checkpoint is held while it is that of If-None-Match. Ten requests of a key can wait at the same time. The request counts once against the limit. Other preferences are not followed."},
			{"schema", object{{"type", "string"}}}, {"example", "wait=30"},
		}},
	}
}
