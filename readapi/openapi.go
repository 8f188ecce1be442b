package readapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/access"
	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Description is what the description of the API is about.
type Description struct {
	Brand            string // stands in the headers of webhooks (LEDGERFEED_BRAND)
	BaseURL, DocsURL string // without a slash at the end
}

// Describe writes the OpenAPI 3.1 document of the API, as /v1/openapi.json
// serves it.
func Describe(d Description) ([]byte, error) { return describeAPI(newRoutes(), d) }

const apiWords = `Read access to the invoices, time entries, charges, clients and their credit, contractors, confirmed payments and events of one workspace.

The API is read only: GET, HEAD and OPTIONS, anything else is answered with 405. Every request can be repeated.

**Keys.** Send an API key in the header Authorization: Bearer <API_KEY>. A key belongs to one workspace and has permissions; they decide which endpoints it may call and which fields it sees. A field that a key may not see is absent, never null. Every field that it may see is present, null without a value. A key in the URL is refused with 400.

**Forms.** Money is a string with two decimals beside a currency. Timestamps are UTC with three decimals. Dates are YYYY-MM-DD.

**Lists** are in order of last change, oldest first. next_cursor is always given: keep it, also from the last page, and ask again later with the same parameters to get exactly what has changed since. Pages may be read while data changes: a row that changes moves to the end.

**Conditional requests.** Lists and resources have a strong ETag; send it in If-None-Match and get 304 while nothing has changed. Answers over 1 KiB are compressed with zstd or gzip where the caller accepts it.

**Limits.** Each key may make a number of requests a clock minute, 120 unless raised. Above, the answer is 429 with Retry-After. RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset are on every response; RateLimit and RateLimit-Policy say the same in the form of the IETF draft. Until a key is known they count the refused keys of the caller's address, 20 a minute.

**Errors** are problem documents (RFC 9457). Retry 429, 500 and 503 with growing waits; never retry 400, 401, 403 or 404 unchanged. Log the request_id of failed requests.`

// describeAPI makes the document from the route table and the fields' own
// definitions.
func describeAPI(table *routes, d Description) ([]byte, error) {
	s := &schemas{known: map[string]bool{}}
	paths := object{}
	for _, r := range table.list {
		paths = paths.with(r.pattern, s.ofPath(r))
	}
	webhook := s.ofWebhook(d.Brand)
	s.add("Problem", problemSchema(s))
	document := object{
		{"openapi", "3.1.0"},
		{"info", object{
			{"title", "Ledgerfeed"},
			{"version", "1"},
			{"summary", "Billing, time and payment data of one workspace, read only."},
			{"description", apiWords},
			{"contact", object{{"name", "Documentation"}, {"url", d.DocsURL}}},
			{"license", object{{"name", "As agreed with the operator of the service"}, {"url", d.DocsURL}}},
		}},
		{"servers", []object{{{"url", d.BaseURL}}}},
		{"tags", tags()},
		{"paths", paths},
		{"webhooks", object{{"event", webhook}}},
		{"components", object{
			{"securitySchemes", object{{"apiKey", object{
				{"type", "http"}, {"scheme", "bearer"}, {"bearerFormat", "API key"},
				{"description", "An API key, made under Settings, Integrations, API Keys. The names beside an operation are the permissions that it needs."},
			}}}},
			{"parameters", commonParameters()},
			{"headers", headers()},
			{"responses", errorResponses(d.DocsURL)},
			{"schemas", s.named},
		}},
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		return nil, fmt.Errorf("readapi: write the description of the API: %w", err)
	}
	return b.Bytes(), nil
}

func tags() []object {
	tag := func(name, words string) object { return object{{"name", name}, {"description", words}} }
	return []object{
		tag("Invoices", "Invoices, packages, credit notes and charges."),
		tag("Payments", "Payments that the accounting system has confirmed."),
		tag("Time entries", "Work that was recorded."),
		tag("Contractors", "Who does the work."),
		tag("Clients", "Who the work is for, and their credit."),
		tag("Events", "What happened, in order, for 30 days; also pushed by webhooks."),
		tag("Key", "The key itself, and this description."),
	}
}

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
	parameters = append(parameters, reference("parameters", "RequestId"))
	tagged := r.shape != shapeMe
	if tagged {
		parameters = append(parameters, reference("parameters", "IfNoneMatch"))
	}
	ok := object{{"description", "Done."}, {"headers", responseHeaders(tagged)}}
	if method == "" {
		ok = ok.with("content", object{{"application/json", object{
			{"schema", schema},
			{"example", json.RawMessage(example)},
		}}})
	}
	responses := object{{"200", ok}}
	if tagged {
		responses = responses.with("304", object{
			{"description", "Nothing has changed since the answer with the ETag in If-None-Match."}, {"headers", responseHeaders(true)},
		})
	}
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
	for _, part := range []domain.Part{domain.Pay, domain.Margin} {
		if r.resource.has(part) {
			words += " " + string(permissionOf(part)) + " adds fields."
		}
	}
	return words
}

// errorsOf lists the errors that a call of a route can end in.
func errorsOf(r *route) object {
	statuses := []int{http.StatusBadRequest, http.StatusUnauthorized}
	if r.permission != "" {
		statuses = append(statuses, http.StatusForbidden)
	}
	if strings.Contains(r.pattern, "{id}") {
		statuses = append(statuses, http.StatusNotFound)
	}
	return errorReferences(append(statuses, http.StatusTooManyRequests, statusInvalidHeaders,
		http.StatusInternalServerError, http.StatusServiceUnavailable)...)
}

func errorReferences(statuses ...int) object {
	responses := object{}
	for _, status := range statuses {
		responses = responses.with(strconv.Itoa(status), reference("responses", "Error"+strconv.Itoa(status)))
	}
	return responses
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

// ofWebhook describes the message that webhooks get (service.md, "Delivery
// request").
func (s *schemas) ofWebhook(brand string) object {
	header := func(name, words string, schema object, example string) object {
		return object{{"name", name}, {"in", "header"}, {"required", true}, {"description", words}, {"schema", schema}, {"example", example}}
	}
	anyText := object{{"type", "string"}}
	return object{{"post", object{
		{"operationId", "receiveEvent"},
		{"tags", []string{"Events"}},
		{"summary", "An event, sent to your webhook"},
		{"description", "Sent to the webhooks that chose the event's type. Any 2xx within 10 seconds is success; otherwise it is sent again after " +
			"1 minute, 5 minutes, 30 minutes, 2, 6, 12 and 24 hours. The same event can come more than once: recognise it by its id. " +
			"Check the signature before you read the body: one of the v1 values must be the HMAC-SHA256, in hex, of t, a point and the body as it came, " +
			"keyed with the webhook's secret, and t must be within 300 seconds of now."},
		{"security", []object{}},
		{"parameters", []object{
			header(brand+"-Signature", "Time and signatures; two of them for 24 hours after the secret was rotated.", anyText, "t=1790932500,v1=5257a869e7ecebeda32affa62cdca3fa51cad7e77a0e56ff536d0ce8e108d8bd"),
			header(brand+"-Event-Id", "The event's id.", anyText, "evt_0199a2f4c1e87b4f"),
			header(brand+"-Delivery-Id", "The id of this delivery: the event's and the webhook's.", anyText, "evt_0199a2f4c1e87b4f_wh_7"),
		}},
		{"requestBody", object{{"required", true}, {"content", object{{"application/json", object{
			{"schema", s.ofFields("Event", domain.EventFields())},
			{"example", json.RawMessage(domain.ExampleOf(domain.EventFields()))},
		}}}}}},
		{"responses", object{{"2XX", object{{"description", "The message was taken."}}}}},
	}}}
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

// errorResponses describes the answers that are problems.
func errorResponses(docsURL string) object {
	responses := object{}
	for _, p := range []*problem{
		wrongParams([]paramError{{"limit", "must be a whole number from 1 to 100"}}),
		unauthorized(""),
		lacksPermission(access.InvoicesRead),
		unknownID("invoice"),
		tooManyRequests(access.Allowance{Limit: access.DefaultRateLimit, Reset: 42}),
		headersTooLarge(),
		internal(nil),
		unavailable(nil),
	} {
		described := append(responseHeaders(false), errorHeaders(p)...)
		example := object{
			{"type", docsURL + "/errors/" + strconv.Itoa(p.status)},
			{"title", titleOf(p.status)},
			{"status", p.status},
			{"detail", p.detail},
			{"request_id", "req_3f2c9a1d5b7e4c0a8d6f1e2b3c4d5e6f"},
		}
		if len(p.errors) > 0 {
			example = example.with("errors", p.errors)
		}
		responses = responses.with("Error"+strconv.Itoa(p.status), object{
			{"description", errorWords(p.status)},
			{"headers", described},
			{"content", object{{"application/problem+json", object{{"schema", reference("schemas", "Problem")}, {"example", example}}}}},
		})
	}
	return responses
}

func errorHeaders(p *problem) object {
	h := object{}
	if p.retryAfter > 0 {
		h = h.with(headerRetryAfter, reference("headers", headerRetryAfter))
	}
	if p.challenge {
		h = h.with(headerChallenge, reference("headers", headerChallenge))
	}
	return h
}

// errorWords says when an error comes and what to do (service.md, "Errors").
func errorWords(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "A parameter is wrong or unknown, a cursor does not match, or a key was put in the URL. Fix the request; do not retry it unchanged."
	case http.StatusUnauthorized:
		return "No key, or the key is unknown, revoked or expired. Do not retry."
	case http.StatusForbidden:
		return "The key lacks the permission that detail names."
	case http.StatusNotFound:
		return "There is nothing with this id that this key may see."
	case http.StatusTooManyRequests:
		return "Too many requests, or too many refused keys from this address. Wait the seconds in Retry-After, then retry."
	case statusInvalidHeaders:
		return "The request line and headers are too large."
	case http.StatusServiceUnavailable:
		return "Briefly unavailable. Retry with growing waits."
	}
	return "A fault of the service. Retry after a short wait; report the request_id if it goes on."
}

func problemSchema(s *schemas) object {
	row := s.add("ParameterError", closed("A wrong parameter.", object{
		{"field", text("The parameter's name, as it came.", "limit")},
		{"message", text("What is wrong, in plain English.", "must be a whole number from 1 to 100")},
	}, []string{"field", "message"}))
	return closed("An error (RFC 9457).", object{
		{"type", object{{"type", "string"}, {"format", "uri"}, {"description", "Identifies the kind of error; ends in the status."}}},
		{"title", text("Short summary.", titleOf(http.StatusNotFound))},
		{"status", object{{"type", "integer"}, {"enum", []int{400, 401, 403, 404, 405, 429, 431, 500, 503}}}},
		{"detail", text("What happened and what to do, in plain English.", "This key lacks the permission invoices:read.")},
		{"request_id", text("The same as in X-Request-Id.", "req_3f2c9a1d5b7e4c0a8d6f1e2b3c4d5e6f")},
		{"errors", object{{"type", "array"}, {"description", "Only where parameters are wrong: one row for each."}, {"items", row}, {"minItems", 1}}},
	}, []string{"type", "title", "status", "detail", "request_id"})
}
