package readapi

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// ofPath describes the three methods of a path.
func (s *schemas) ofPath(r *route) object {
	path := object{}
	if strings.Contains(r.pattern, "{id}") {
		path = path.with("parameters", []object{{
			{"name", "id"}, {"in", "path"}, {"required", true}, {"description", "The id of the " + idOf(r) + "."},
			{"schema", object{{"type", "string"}, {"minLength", 1}}}, {"example", exampleID(r)},
		}})
	}
	schema, example := s.ofRoute(r)
	return path.
		with("get", s.ofOperation(r, "", schema, example)).
		with("head", s.ofOperation(r, "head", nil, "")).
		with("options", ofOptions(r))
}

func idOf(r *route) string {
	if r.resource == nil {
		return "client"
	}
	return r.resource.words()
}

func exampleID(r *route) string {
	if r.resource == nil {
		return "cl_4821"
	}
	return strings.Trim(r.resource.fields[0].Example, `"`)
}

// ofOperation describes GET, or HEAD, which answers the same without a body.
func (s *schemas) ofOperation(r *route, method string, schema object, example string) object {
	operation := object{{"operationId", r.operation}, {"tags", []string{r.group}}, {"summary", r.summary}}
	words := r.description
	if method != "" {
		operation[0].value = method + strings.ToUpper(r.operation[:1]) + r.operation[1:]
		operation[2].value = r.summary + ", without the body"
		words = "Answers as GET would, Content-Length included, without the body."
	}
	if p := permissionWords(r); p != "" {
		words += " " + p
	}
	parameters := make([]any, 0, len(r.params)+2)
	for i := range r.params {
		parameters = append(parameters, ofParam(&r.params[i]))
	}
	parameters = append(parameters, reference("parameters", "RequestId"), reference("parameters", "IfNoneMatch"))
	ok := object{{"description", "Done."}, {"headers", responseHeaders(true)}}
	if method == "" {
		ok = ok.with("content", object{{"application/json", object{
			{"schema", schema},
			{"example", json.RawMessage(example)},
		}}})
	}
	unchanged := object{
		{"description", "Nothing has changed since the answer with the ETag in If-None-Match."}, {"headers", responseHeaders(true)},
	}
	responses := object{{"200", ok}, {"304", unchanged}}
	return operation.
		with("description", words).
		with("security", []object{{{"apiKey", scopesOf(r)}}}).
		with("parameters", parameters).
		with("responses", append(responses, errorsOf(r)...))
}

func scopesOf(r *route) []string {
	if r.permission == "" {
		return []string{}
	}
	return []string{string(r.permission)}
}

func permissionWords(r *route) string {
	if r.permission == "" {
		return "Needs no permission beyond a valid key."
	}
	words := "Needs " + string(r.permission) + "."
	if r.resource == nil {
		return words
	}
	for _, part := range []jsonform.Part{domain.Pay, domain.Margin} {
		if r.resource.has(part) {
			words += " " + string(permissionOf(part)) + " adds fields."
		}
	}
	return words
}

func ofOptions(r *route) object {
	name := strings.ToUpper(r.operation[:1]) + r.operation[1:]
	statuses := []int{http.StatusBadRequest, http.StatusUnauthorized}
	if strings.Contains(r.pattern, "{id}") {
		statuses = append(statuses, http.StatusNotFound) // an escaped slash is no id
	}
	statuses = append(statuses, http.StatusTooManyRequests, statusInvalidHeaders, http.StatusInternalServerError, http.StatusServiceUnavailable)
	noContent := object{
		{"description", "The methods of this path."},
		{"headers", append(responseHeaders(false), member{headerAllow, object{
			{"description", "Methods that the path takes."}, {"required", true}, {"schema", object{{"type", "string"}, {"const", allowed}}},
		}})},
	}
	return object{
		{"operationId", "options" + name},
		{"tags", []string{r.group}},
		{"summary", r.summary + ": methods"},
		{"description", "Tells the methods of this path. Needs a valid key and no permission."},
		{"security", []object{{{"apiKey", []string{}}}}},
		{"parameters", []object{reference("parameters", "RequestId")}},
		{"responses", append(object{{"204", noContent}}, errorReferences(statuses...)...)},
	}
}

// ofParam describes a query parameter.
func ofParam(p *param) object {
	schema := object{{"type", "string"}}
	var example any = p.example
	switch p.form {
	case formLimit:
		schema = object{{"type", "integer"}, {"minimum", 1}, {"maximum", maxLimit}, {"default", defaultLimit}}
		example = defaultLimit
	case formCursor:
		schema = schema.with("minLength", 1)
	case formTime:
		schema = schema.with("format", "date-time")
	case formPeriod:
		schema = schema.with("pattern", patternPeriod)
	case formID:
		schema = schema.with("pattern", patternID)
	case formEnum:
		schema = schema.with("enum", p.values)
	}
	described := object{{"name", p.name}, {"in", "query"}, {"description", p.doc}, {"schema", schema}}
	if p.form == formCursor {
		return described // an example would be refused
	}
	return described.with("example", example)
}

func commonParameters() object {
	return object{
		{"RequestId", object{
			{"name", headerRequestID}, {"in", "header"},
			{"description", "An id of your own for this request: 1 to 64 of A-Z a-z 0-9 . _ -. Otherwise one is made."},
			{"schema", object{{"type", "string"}}}, {"example", "import-2026-10-02-0001"},
		}},
		{"IfNoneMatch", object{
			{"name", "If-None-Match"}, {"in", "header"},
			{"description", "ETags of answers that you have, or *."},
			{"schema", object{{"type", "string"}}}, {"example", `"0dGvpk6SZxbQXJ4s0W2q"`},
		}},
	}
}
