package readapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/access/limit"
)

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

// errorResponses describes the answers that are problems.
func errorResponses(docsURL string) object {
	responses := object{}
	for _, p := range []*problem{
		wrongParams([]paramError{{"limit", "must be a whole number from 1 to 100"}}),
		unauthorized(""),
		lacksPermission(access.InvoicesRead),
		unknownID("invoice"),
		tooManyRequests(limit.Allowance{Limit: access.DefaultRateLimit, Reset: 42}),
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

// errorWords says when an error comes and what to do (docs/contract/service.md, "Errors").
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
	case http.StatusMethodNotAllowed:
		return "The API is read only. Use GET, HEAD or OPTIONS."
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
		{"errors", object{{"type", "array"}, {"description", "Only where parameters are wrong: one row for each, for " +
			strconv.Itoa(maxNamedParams) + " of them at most."}, {"items", row}, {"minItems", 1}, {"maxItems", maxNamedParams}}},
	}, []string{"type", "title", "status", "detail", "request_id"})
}
