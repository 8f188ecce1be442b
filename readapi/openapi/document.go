package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// Info describes the service that serves the API.
type Info struct {
	Brand            brand.Brand // part of the names of webhook headers (LEDGERFEED_BRAND)
	BaseURL, DocsURL string      // without a slash at the end
}

const introduction = `Read access to the invoices, time entries, charges, clients and their credit, contractors, confirmed payments and events of one workspace.

The API is read only, and every request can be repeated. HEAD and OPTIONS work at every path beside GET, which alone is described here; anything else is answered with 405. HEAD answers as GET would, Content-Length included, without the body. OPTIONS answers 204 with the methods in Allow, and needs a valid key and no permission.

**Keys.** Send an API key in the header Authorization: Bearer <API_KEY>. A key belongs to one workspace and has permissions; they decide which endpoints it may call and which fields it sees. A field that a key may not see is absent, never null. Every field that it may see is present, null without a value. A key in the URL is refused with 400.

**Forms.** Money is a string with two decimals beside a currency. Timestamps are UTC with three decimals. Dates are YYYY-MM-DD.

**Lists** are in order of last change, oldest first. next_cursor is always given: keep it, also from the last page, and ask again later with the same parameters to get exactly what has changed since. Stop on has_more: false. As long as it is true, the header Link with rel="next" has the address of the next page, so a paginator that follows it stops as well. Pages may be read while data changes: a row that changes moves to the end. A row that is deleted, or that your key may no longer see, is no longer in its list; with include=removed it is there as {"id":…,"removed":true,"updated_at":…}, so that a follower learns that it is gone. A row that no longer matches a filter is not reported: follow lists without filters that can change.

**Totals** add up what a list shows with the same filters, by client, contractor, month and status, in one answer of one moment.

**Whole lists.** Lists of rows also come in one answer, as they were at one moment: at the list's path with .ndjson or .csv after it, or with Accept: application/x-ndjson or text/csv, and without limit. It costs one request of the limit and one more for each 10,000 rows begun. NDJSON ends with a line that has next_cursor; CSV has the cursor in the header and the trailer field Next-Cursor. A list without that end was broken off: start again from the cursor that you had.

**Headers.** Every answer, an error too, has the headers that GET /v1/me describes: X-Request-Id, the RateLimit headers, Cache-Control, X-Content-Type-Options and Vary. Every request may have an X-Request-Id of its own. They are described there alone, and the other operations describe what they add. A 304 has the headers of the 200 but those about a page: Link, Event-Index and Next-Cursor. A 401 has WWW-Authenticate: Bearer.

**Conditional requests.** Every answer has a strong ETag; send it in If-None-Match and get 304 while nothing has changed. Answers over 1 KiB are compressed with zstd or gzip where the caller accepts it.

**Waiting.** Lists take Prefer: wait=30: where there is nothing after the cursor, the answer is held until there is, for at most so many seconds (1 to 30). Preference-Applied says that it was.

**Positions.** Answers about a workspace's data say in Log-Position which position of its log they are of. With Log-Position-At-Least a request is answered from at least a position, such as one that appending returned: so a program reads what it has just written.

**Proof.** The events are also the leaves of a Merkle tree, in the public forms of transparency logs (c2sp.org/tlog-tiles): a signed checkpoint, tiles and entry bundles. Keys without pay:read have a tree of their own.

**Limits.** Each key may make a number of requests a clock minute, 120 unless raised. Above, the answer is 429 with Retry-After. RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset are on every response; RateLimit and RateLimit-Policy say the same in the form of the IETF draft. Until a key is known they count the refused keys of the caller's address, 20 a minute.

**What may change.** Within /v1 there may be more: endpoints, optional parameters, fields of answers, values of enumerations, types of events and headers. Nothing is removed, renamed or given another meaning. So the schemas here are open, and values in answers are listed as x-extensible-enum, not as enum: pass over what your program does not know.

**Errors** are problem documents (RFC 9457), of one form for every operation and status: the response default. A 403 comes only from an operation that needs a permission, and a 404 only where the path has a variable, or from the checkpoint. Retry 429, 500 and 503 with growing waits; never retry 400, 401, 403 or 404 unchanged. Log the request_id of failed requests.`

// Document returns the OpenAPI 3.1 document of the API, as /v1/openapi.json serves it.
func Document(info Info) ([]byte, error) {
	s := newSchemas()
	paths := object{}
	for _, r := range route.Table() {
		paths = s.wholeLists(paths.with(r.Path, s.pathItem(&r)), &r)
	}
	webhook := s.webhook(info.Brand)
	s.add("Problem", s.problem())
	document := object{
		{"openapi", "3.1.0"},
		{"info", object{
			{"title", "Ledgerfeed"},
			{"version", "1"},
			{"summary", "Billing, time and payment data of one workspace, read only."},
			{"description", introduction},
			{"contact", object{{"name", "Documentation"}, {"url", info.DocsURL}}},
			{"license", object{{"name", "Apache License 2.0"}, {"identifier", "Apache-2.0"}}},
		}},
		{"servers", []object{{{"url", info.BaseURL}}}},
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
			{"responses", object{{"Error", errorResponse(info.DocsURL)}}},
			{"schemas", s.named},
		}},
	}
	return indented(document)
}

// indented writes a document as JSON for people to read.
func indented(document object) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		return nil, fmt.Errorf("write a description: %w", err)
	}
	return b.Bytes(), nil
}

func tags() (list []object) {
	for _, g := range groups() {
		list = append(list, object{{"name", g[0]}, {"description", g[1]}})
	}
	return list
}

// AboutGroup says what the endpoints of a group are about.
func AboutGroup(name string) string {
	list := groups()
	return list[slices.IndexFunc(list, func(g [2]string) bool { return g[0] == name })][1]
}

// groups returns the groups of endpoints, with what they are about.
func groups() [][2]string {
	return [][2]string{
		{"Invoices", "Invoices, packages, credit notes and charges."},
		{"Payments", "Payments that the accounting system has confirmed."},
		{"Time entries", "Work that was recorded."},
		{"Contractors", "Who does the work."},
		{"Clients", "Who the work is for, and their credit."},
		{"Totals", "Sums over the rows of lists."},
		{"Events", "What happened, in order, for 30 days; also pushed by webhooks."},
		{"Proof", "The events as a transparency log that anybody can check (c2sp.org/tlog-tiles)."},
		{"Key", "The key itself, and this description."},
	}
}

// webhook describes the message that webhooks get (docs/contract/service.md,
// "Delivery request").
func (s *schemas) webhook(names brand.Brand) object {
	parameter := func(name, description string, required bool, schema object, example string) object {
		return object{{"name", name}, {"in", "header"}, {"required", required}, {"description", description}, {"schema", schema}, {"example", example}}
	}
	header := func(name, description string, schema object, example string) object {
		return parameter(name, description, true, schema, example)
	}
	optional := func(name, description string, schema object, example string) object {
		return parameter(name, description, false, schema, example)
	}
	anyText := object{{"type", "string"}}
	return object{{"post", object{
		{"operationId", "receiveEvent"},
		{"tags", []string{"Events"}},
		{"summary", "An event, sent to your webhook"},
		{"description", "Sent to the webhooks that chose the event's type. Any 2xx within 10 seconds is success; otherwise it is sent again after " +
			"1 minute, 5 minutes, 30 minutes, 2, 6, 12 and 24 hours, or later if a 429 or 503 asks for it with Retry-After, 24 hours at most. The same event can come more than once: recognise it by its id. " +
			"Check the signature before you read the body: one of the v1 values must be the HMAC-SHA256, in hex, of t, a point and the body as it came, " +
			"keyed with the webhook's secret, and t must be within 300 seconds of now. " +
			"A webhook that is set so carries the headers of Standard Webhooks (standardwebhooks.com) as well, under the same secret."},
		{"security", []object{}},
		{"parameters", []object{
			header(names.SignatureHeader(), "Time and signatures, newest secret first: after a rotation each earlier secret signs for 24 hours more, so that there are up to five.", anyText, "t=1790932500,v1=5257a869e7ecebeda32affa62cdca3fa51cad7e77a0e56ff536d0ce8e108d8bd"),
			header(names.EventIDHeader(), "The event's id.", anyText, "evt_0199a2f4c1e87b4f"),
			optional("webhook-id", "The event's id; like the next two only if the webhook has the headers of Standard Webhooks.", anyText, "evt_0199a2f4c1e87b4f"),
			optional("webhook-timestamp", "When it was sent, in seconds since 1970.", anyText, "1790932500"),
			optional("webhook-signature", "v1 and a comma before each signature, with a space between two.", anyText, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
			header(names.DeliveryIDHeader(), "The id of this delivery: the event's and the webhook's.", anyText, "evt_0199a2f4c1e87b4f_wh_7"),
			header(names.LogPositionHeader(), "The position of the event's entry in your workspace's log, the same each time it is sent. Order events by it. "+
				"With Log-Position-At-Least and this position, a request is answered from a state that includes the event.", object{{"type", "string"}, {"pattern", "^[1-9][0-9]*$"}}, "1042"),
		}},
		{"requestBody", object{{"required", true}, {"content", object{{"application/json", object{
			{"schema", s.fields("Event", domain.EventFields())},
			{"example", json.RawMessage(jsonform.ExampleOf(domain.EventFields()))},
		}}}}}},
		{"responses", object{{"2XX", object{{"description", "The message was taken."}}}}},
	}}}
}
