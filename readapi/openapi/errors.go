package openapi

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// ErrorStatuses returns the statuses of the API's errors.
func ErrorStatuses() []int {
	return []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge, http.StatusInternalServerError, http.StatusServiceUnavailable,
	}
}

// errorResponse describes the answers that are errors. All have one form, so that a generated client has
// one type for them, and code for one error in each operation.
func errorResponse(docsURL string) object {
	var description strings.Builder
	description.WriteString("An error. The status says what to do, and code in the body what is wrong:\n")
	for _, status := range ErrorStatuses() {
		fmt.Fprintf(&description, "\n- %d: %s", status, ErrorDescription(status))
	}
	examples := object{}
	for _, p := range []*answer.Error{
		answer.WrongParams([]answer.ParamError{{Field: "limit", Message: "must be a whole number from 1 to 100"}}),
		answer.Unauthorized("", nil),
		answer.LacksPermission(access.InvoicesRead),
		answer.UnknownID("invoice"),
		answer.TooManyRequests(access.Allowance{Limit: access.DefaultRateLimit, Reset: 42}),
		answer.HeadersTooLarge(),
		answer.Internal(nil),
		answer.Unavailable(nil),
	} {
		example := object{
			{"type", docsURL + "/errors/" + strconv.Itoa(p.Status)},
			{"title", answer.Title(p.Status)},
			{"status", p.Status},
			{"code", p.Code},
			{"detail", p.Detail},
			{"request_id", "req_3f2c9a1d5b7e4c0a8d6f1e2b3c4d5e6f"},
		}
		if len(p.Errors) > 0 {
			example = example.with("errors", p.Errors)
		}
		examples = examples.with(string(p.Code), object{{"summary", strconv.Itoa(p.Status) + " " + answer.Title(p.Status)}, {"value", example}})
	}
	return object{
		{"description", description.String()},
		{"headers", object{{answer.HeaderRetryAfter, reference("headers", answer.HeaderRetryAfter)}}},
		{"content", object{{"application/problem+json", object{{"schema", reference("schemas", "Problem")}, {"examples", examples}}}}},
	}
}

// ErrorDescription says when the API returns an error and what to do then
// (docs/contract/service.md, "Errors").
func ErrorDescription(status int) string {
	return cmp.Or(errorDescriptions[status], "A fault of the service. Retry after a short wait; report the request_id if it goes on.")
}

// errorDescriptions says when each error is returned.
//
//nolint:gochecknoglobals // a constant table
var errorDescriptions = map[int]string{
	http.StatusBadRequest:                  "A parameter is wrong or unknown, a cursor does not match, Log-Position-At-Least has a wrong form, or a key was put in the URL. Fix the request; do not retry it unchanged.",
	http.StatusUnauthorized:                "No key, or the key is unknown, revoked or expired. Do not retry.",
	http.StatusForbidden:                   "The key lacks the permission that detail names.",
	http.StatusNotFound:                    "There is nothing with this id that this key may see, or no such checkpoint or tile.",
	http.StatusMethodNotAllowed:            "The API is read only. Use GET, HEAD or OPTIONS.",
	http.StatusTooManyRequests:             "Too many requests, too many refused keys from this address, or as many whole lists of the workspace under way as it may read at the same time. Wait the seconds in Retry-After, then retry.",
	http.StatusRequestHeaderFieldsTooLarge: "The request line and headers are too large.",
	http.StatusServiceUnavailable:          "Briefly unavailable, or the position in Log-Position-At-Least was not reached in time. Wait the seconds in Retry-After, then retry with growing waits.",
}

// problem returns the schema of a problem document.
func (s *schemas) problem() object {
	row := s.add("ParameterError", members("A wrong parameter.", object{
		{"field", text("The parameter's name, as it came; Log-Position-At-Least for that header.", "limit")},
		{"message", text("What is wrong, in plain English.", "must be a whole number from 1 to 100")},
	}, []string{"field", "message"}))
	return members("An error (RFC 9457).", object{
		{"type", object{{"type", "string"}, {"format", "uri"}, {"description", "Identifies the kind of error; ends in the status."}}},
		{"title", text("Short summary.", answer.Title(http.StatusNotFound))},
		{"status", object{{"type", "integer"}, {"description", "The HTTP status, again; others may come."}}.extensible(ErrorStatuses())},
		{"code", errorCode()},
		{"detail", text("What happened and what to do, in plain English.", "This key lacks the permission invoices:read.")},
		{"request_id", text("The same as in X-Request-Id.", "req_3f2c9a1d5b7e4c0a8d6f1e2b3c4d5e6f")},
		{"moved_to", text("Only in a 503 of a workspace that is served from another place now, if its address is known: send the same request there, with the same key and cursor.", "https://api.eu.example.com")},
		{"errors", object{{"type", "array"}, {"description", "Only where parameters are wrong: one row for each, for " +
			strconv.Itoa(answer.MaxParamErrors) + " of them at most."}, {"items", row}, {"minItems", 1}, {"maxItems", answer.MaxParamErrors}}},
	}, []string{"type", "title", "status", "code", "detail", "request_id"})
}

// errorCode returns the schema of a problem's code.
func errorCode() object {
	var description strings.Builder
	description.WriteString("A stable word for what is wrong, for programs; others may come.")
	var codes []answer.Code
	for _, c := range answer.Codes() {
		codes = append(codes, c.Code)
		description.WriteString(" " + string(c.Code) + ": " + c.Meaning)
	}
	return object{{"type", "string"}, {"description", description.String()}, {"examples", []answer.Code{answer.CodeNotFound}}}.extensible(codes)
}
