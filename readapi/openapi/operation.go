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

// headers describes the headers of responses.
func headers() object {
	number := object{{"type", "integer"}, {"minimum", 0}}
	header := func(description string, required bool, schema object, example any) object {
		return object{{"description", description}, {"required", required}, {"schema", schema}, {"example", example}}
	}
	anyText := object{{"type", "string"}}
	return object{
		{answer.HeaderRequestID, header("The id of this request.", true, object{{"type", "string"}, {"pattern", `^[A-Za-z0-9._-]{1,64}$`}}, "req_3f2c9a1d5b7e4c0a8d6f1e2b3c4d5e6f")},
		{answer.HeaderLimit, header("Requests allowed in a clock minute.", true, number, 120)},
		{answer.HeaderRemaining, header("Requests left in this minute.", true, number, 117)},
		{answer.HeaderReset, header("Seconds until the minute ends.", true, number, 42)},
		{answer.HeaderRate, header("What is left, in the form of the IETF draft.", true, anyText, `"key";r=117;t=42`)},
		{answer.HeaderPolicy, header("The limit, in the form of the IETF draft.", true, anyText, `"key";q=120;w=60`)},
		{answer.HeaderCacheControl, header("private, no-cache if the answer has an ETag; for a tile, that it never changes; otherwise private, no-store.", true, anyText.extensible([]string{answer.CacheRevalidate, answer.CacheImmutable, answer.CacheNever}), answer.CacheRevalidate)},
		{answer.HeaderNoSniff, header("Always nosniff.", true, object{{"type", "string"}, {"const", answer.NoSniff}}, answer.NoSniff)},
		{answer.HeaderETag, header("Names this answer, for If-None-Match. Strong; each encoding has its own.", true, anyText, `"0dGvpk6SZxbQXJ4s0W2q"`)},
		{answer.HeaderLogPosition, header("The position of the workspace's log that this answer is of: everything up to it is in the answer, and nothing after it. Positions count the log's entries, 1, 2, 3, …; entries that the API does not show count, too.", true, object{{"type", "integer"}, {"format", "int64"}, {"minimum", 0}}, 48213)},
		{answer.HeaderApplied, header("wait=N: the preference of the request was followed, and the page was waited for if there was nothing on it. Absent although it was preferred: too many requests wait already, so wait on your side before you ask again.", false, object{{"type", "string"}, {"pattern", `^wait=([1-9]|[12]\d|30)$`}}, "wait=30")},
		{answer.HeaderEventIndex, header("The index of the first event of the page in the tree that the key sees (see getCheckpoint): how many events are before it since the first one. Absent with type, on pages without events, and while the tree is far behind.", false, object{{"type", "integer"}, {"format", "int64"}, {"minimum", 0}}, 1042)},
		{answer.HeaderLink, header("The address of the next page, with the relation next (RFC 8288). Absent when has_more is false.", false, anyText, `<https://api.example.com/v1/invoices?cursor=`+exampleCursor+`>; rel="next"`)},
		{answer.HeaderVary, header("The request headers that the answer depends on: the encodings that the caller accepts; for a list of rows, also the forms; for the event tree, also the key.", false, anyText, answer.VaryEncoding)},
		{answer.HeaderNextCursor, header("Only for a whole list (application/x-ndjson, text/csv): where it goes on, like next_cursor of a page. A trailer field repeats it when the list has ended.", false, anyText, exampleCursor)},
		{answer.HeaderRetryAfter, header("Seconds to wait before the next try. Only with 429 and 503.", false, number, 42)},
	}
}

// answerHeaders refers to the headers of a route's response 200.
func answerHeaders(r *route.Route) object {
	h := object{}
	if r.Kind == route.KeyInfo {
		h = headersOfAll()
	}
	h = h.with(answer.HeaderETag, reference("headers", answer.HeaderETag))
	if r.HasPosition() {
		h = h.with(answer.HeaderLogPosition, reference("headers", answer.HeaderLogPosition))
	}
	if r.CanWait() {
		h = h.with(answer.HeaderApplied, reference("headers", answer.HeaderApplied))
	}
	return h
}

// headersOfAll refers to the headers that every response has. They stand at one operation, and in words
// for the others: a generated client has code for each header of each response.
func headersOfAll() object {
	h := object{}
	for _, name := range []string{
		answer.HeaderRequestID, answer.HeaderLimit, answer.HeaderRemaining, answer.HeaderReset, answer.HeaderRate, answer.HeaderPolicy, answer.HeaderCacheControl, answer.HeaderNoSniff, answer.HeaderVary,
	} {
		h = h.with(name, reference("headers", name))
	}
	return h
}

// Examples of answers about the tree over the events.
const (
	exampleCheckpoint = "api.example.com/northwind/events\n1042\nkk9TQ0MiYfqIyfHt5m0F7sqlJM7JMULLR7ALYTuHGxc=\n" +
		"position 48213\nchain 2MmyPpMa7ZGKCDv+0MmyPpMa7ZGKCDv+0MmyPpMa7ZE=\n\n" +
		"— api.example.com/northwind/events mHxB4gUFwJVpTfDNMzKGdbyB9gDfXvR1hTzPqZkDCuEvbWNfHi6iYUNpjJ2xYcWmjXkq1ZlQk2rGcSqAqgVbHgBQ5Q0=\n"
	exampleTile   = "(256 hashes of 32 bytes)"
	exampleBundle = "(256 events, each after its length in two bytes)"
)

// treeExample returns an example of an answer about the tree over the events. It describes binary
// answers in words.
func treeExample(r *route.Route) string {
	switch r.Kind {
	case route.Checkpoint:
		return exampleCheckpoint
	case route.Tile:
		return exampleTile
	default:
		return exampleBundle
	}
}

// treeContent describes the body of an answer about the tree over the events.
func treeContent(r *route.Route) object {
	media, _, _ := strings.Cut(r.MediaType(), ";")
	if r.Kind == route.Checkpoint {
		return object{{media, object{{"schema", object{{"type", "string"}, {"description", "A signed note."}}}, {"example", exampleCheckpoint}}}}
	}
	return object{{media, object{{"schema", object{{"type", "string"}, {"contentMediaType", media}, {"description", treeExample(r)}}}}}}
}

// variables describes the variables of a path, except {id}.
func variables(r *route.Route) (list []object) {
	for _, v := range r.Variables() {
		list = append(list, object{
			{"name", v.Name}, {"in", "path"}, {"required", true}, {"description", v.Description},
			{"schema", object{{"type", "string"}, {"minLength", 1}}}, {"example", v.Example},
		})
	}
	return list
}
