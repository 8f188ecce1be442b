package answer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/access/limit"
)

// Error is an error that is answered with a problem document (RFC 9457). It is the only
// kind of error whose text callers see.
type Error struct {
	Status     int
	Detail     string
	Errors     []ParamError
	RetryAfter int     // seconds; 0: no such header
	Refusal    Refusal // empty: the request was looked at
	MovedTo    string  // the address that has the workspace now; empty: it is here, or not known

	// For the log alone.
	Cause error
	Lacks access.Permission // that the key would need; empty: none
}

// ParamError is one wrong parameter.
type ParamError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Refusal is why a request was refused before it was looked at more closely.
// Refused requests are counted by the minute, not listed (docs/contract/service.md,
// "Limits", 6).
type Refusal string

// The refusals. Those of keys are the reasons of package access.
const (
	RefusedMethod    Refusal = "method"
	RefusedHeaders   Refusal = "headers"
	RefusedNotHTTP   Refusal = "not_http"
	RefusedKeyInURL  Refusal = "key_in_url"
	RefusedSlowDown  Refusal = "slow_down"
	RefusedRateLimit Refusal = "rate_limit"
)

// Error is the text for logs.
func (p *Error) Error() string {
	if p.Cause != nil {
		return fmt.Sprintf("%d: %v", p.Status, p.Cause)
	}
	return fmt.Sprintf("%d: %s", p.Status, p.Detail)
}

// Unwrap returns the cause.
func (p *Error) Unwrap() error { return p.Cause }

// Title is the title of the problems of a status.
func Title(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "The request is wrong"
	case http.StatusUnauthorized:
		return "No valid API key"
	case http.StatusForbidden:
		return "The key lacks a permission"
	case http.StatusNotFound:
		return "Not found"
	case http.StatusMethodNotAllowed:
		return "Method not allowed"
	case http.StatusTooManyRequests:
		return "Too many requests"
	case http.StatusRequestHeaderFieldsTooLarge:
		return "The request's headers are too large"
	case http.StatusServiceUnavailable:
		return "Briefly unavailable"
	}
	return "Internal error"
}

// MaxHeaderBytes is how large the request line and headers of a request may be
// together.
const MaxHeaderBytes = 16 << 10

// HeadersTooLarge is the answer to a request beyond MaxHeaderBytes.
func HeadersTooLarge() *Error {
	return &Error{
		Status: http.StatusRequestHeaderFieldsTooLarge, Refusal: RefusedHeaders,
		Detail: fmt.Sprintf("The request line and headers are longer than %d bytes together.", MaxHeaderBytes),
	}
}

// NotHTTP is the answer to what the server could not read as a request.
func NotHTTP() *Error {
	return &Error{
		Status: http.StatusBadRequest, Refusal: RefusedNotHTTP,
		Detail: "This is no HTTP request that the service understands: its request line, a header or its coding is malformed.",
	}
}

// MethodNotAllowed is the answer to any other method than AllowedMethods.
func MethodNotAllowed() *Error {
	return &Error{
		Status: http.StatusMethodNotAllowed, Refusal: RefusedMethod,
		Detail: "This API is read only. Use GET, HEAD or OPTIONS.",
	}
}

// KeyInURL is the answer to a URL that holds a key.
func KeyInURL() *Error {
	return &Error{
		Status: http.StatusBadRequest, Refusal: RefusedKeyInURL,
		Detail: "The address holds an API key, or a parameter that is meant for one. Addresses end up in logs and histories, so " +
			"replace the key if it was a real one, and send keys only in the header Authorization: Bearer <API_KEY>.",
	}
}

// TooManyRefusedKeys is the answer to a refused key of an address that is slowed
// down for another reset seconds.
func TooManyRefusedKeys(reset int) *Error {
	return &Error{
		Status: http.StatusTooManyRequests, RetryAfter: reset, Refusal: RefusedSlowDown,
		Detail: fmt.Sprintf("This address has sent more than %d refused keys within a minute. Wait %d seconds and send a valid key.",
			limit.RefusedKeysPerMinute, reset),
	}
}

// Unauthorized is the answer to a request without a valid key. All reasons look the
// same to the caller.
func Unauthorized(reason access.Reason, cause error) *Error {
	return &Error{
		Status: http.StatusUnauthorized, Refusal: Refusal(reason), Cause: cause,
		Detail: "Send a valid API key in the header Authorization: Bearer <API_KEY>. The key is missing, unknown, revoked or expired.",
	}
}

// TooManyRequests is the answer to a key whose rate limit is reached.
func TooManyRequests(a limit.Allowance) *Error {
	return &Error{
		Status: http.StatusTooManyRequests, RetryAfter: a.Reset, Refusal: RefusedRateLimit,
		Detail: fmt.Sprintf("This key may make %d requests a minute. Wait %d seconds, then go on.", a.Limit, a.Reset),
	}
}

// UnknownPath is the answer to a path that is no endpoint.
func UnknownPath() *Error {
	return &Error{Status: http.StatusNotFound, Detail: "There is nothing at this path. Paths begin with /v1 and end without a slash."}
}

// LacksPermission is the answer to a key that lacks an endpoint's permission.
func LacksPermission(p access.Permission) *Error {
	return &Error{Status: http.StatusForbidden, Lacks: p, Detail: "This key lacks the permission " + string(p) + "."}
}

// MaxParamErrors is how many wrong parameters one answer names. Nobody gets that
// many wrong by mistake; without a limit, a query of thousands of invented names
// would be answered with a hundred times its own size.
const MaxParamErrors = 100

// WrongParams is the answer to wrong parameters, at most MaxParamErrors of them.
func WrongParams(errs []ParamError) *Error {
	detail := "A parameter is wrong; errors says which and why."
	switch n := len(errs); {
	case n == MaxParamErrors:
		detail = strconv.Itoa(n) + " parameters or more are wrong; errors says which the first of them are, and why."
	case n > 1:
		detail = strconv.Itoa(n) + " parameters are wrong; errors says which and why."
	}
	return &Error{Status: http.StatusBadRequest, Detail: detail, Errors: errs}
}

// UnknownID is the answer to an id that the key may not see or that does not exist.
// The label says of what, such as "time entry".
func UnknownID(label string) *Error {
	return &Error{Status: http.StatusNotFound, Detail: "There is no " + label + " with this id that this key may see."}
}

// Unsigned is the answer to a request for a checkpoint where nothing signs one.
func Unsigned() *Error {
	return &Error{Status: http.StatusNotFound, Detail: "There are no checkpoints, because the operator of the service has given it no signing key."}
}

// UnknownTile is the answer to the path of a tile that the tree does not have.
func UnknownTile() *Error {
	return &Error{
		Status: http.StatusNotFound,
		Detail: "The tree of the events that this key may see has no such tile, or not so many hashes of it yet, or its events are no longer kept. " +
			"A path is as c2sp.org/tlog-tiles says, such as 000.p/17 or x001/234.",
	}
}

// The Retry-After of a 503, in seconds.
const (
	retryUnavailable = 2
	retryRebuilding  = 30
)

// retryExpensive is the Retry-After of a 503 that more of the same requests would cause
// again, in seconds.
const retryExpensive = 10

// Unavailable is the answer when the database or time is what is missing.
func Unavailable(cause error) *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, RetryAfter: retryUnavailable, Cause: cause,
		Detail: "The service cannot answer at the moment. Try again, with growing waits.",
	}
}

// Moved is the answer to every request about a workspace that another database has now; to
// is the address of the API there, empty where it is not known. It is a 503, which clients
// try again: most ask by a name that will lead them to the other place, and a redirect would
// make them leave the key behind, or send it on unasked.
func Moved(to string) *Error {
	e := &Error{Status: http.StatusServiceUnavailable, RetryAfter: retryMoved, MovedTo: to}
	e.Detail = "This workspace is served from another place now. Try again, with growing waits; if that goes on, ask the operator of the service for its address."
	if to != "" {
		e.Detail = "This workspace is served from " + to + " now. Send the same request there, with the same key; cursors go on there."
	}
	return e
}

// retryMoved is the Retry-After of a workspace that has moved, in seconds.
const retryMoved = 5

// Behind is the answer to a request whose Log-Position-At-Least was not reached in time.
func Behind(position int64) *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, RetryAfter: retryUnavailable,
		Detail: fmt.Sprintf("What is shown has not come to position %d of the log yet, as Log-Position-At-Least demands. Try again, with growing waits; "+
			"if that does not help, the position is of another workspace, or of data that the service no longer holds.", position),
	}
}

// Crowded is the answer to a connection for which there is no place.
func Crowded() *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, RetryAfter: retryExpensive,
		Detail: "The service holds as many connections as it can, in all or from your address. Send requests one after the other over a few connections that stay open.",
	}
}

// Busy is the answer to a page that waited too long because others of its workspace
// were read.
func Busy() *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, RetryAfter: retryExpensive,
		Detail: "Other requests of your workspace use all of its share of the service at the moment. Wait for answers before you send more requests.",
	}
}

// retryWholeList is the Retry-After where there is no place for a whole list, in seconds.
const retryWholeList = 15

// TooManyWholeLists is the answer to a whole list of a workspace that reads as many as it
// may.
func TooManyWholeLists() *Error {
	return &Error{
		Status: http.StatusTooManyRequests, RetryAfter: retryWholeList,
		Detail: "Your workspace reads as many whole lists as it may at the same time. Read one after the other, or in pages.",
	}
}

// NoPlaceForWholeList is the answer to a whole list while all workspaces together read as
// many as the service can.
func NoPlaceForWholeList() *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, RetryAfter: retryWholeList,
		Detail: "The service sends as many whole lists as it can at the moment. Try again a little later, or read the list in pages.",
	}
}

// TooExpensive is the answer to a page that the database could not read in time.
func TooExpensive(cause error) *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, RetryAfter: retryExpensive, Cause: cause,
		Detail: "This page took the database longer than a request may take, and was given up. Filters that each select many rows but " +
			"hardly one together are the usual cause: ask with fewer of them, or with updated_since, and select the rest on your side.",
	}
}

// Rebuilding is the answer while a new version of the service prepares what was asked
// for.
func Rebuilding(cause error) *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, RetryAfter: retryRebuilding, Cause: cause,
		Detail: "The rows that have left the lists of this workspace are still being collected after an update of the service. Try again later, or without include=removed.",
	}
}

// Internal is the answer to every other fault of the service.
func Internal(cause error) *Error {
	return &Error{
		Status: http.StatusInternalServerError, Cause: cause,
		Detail: "Something went wrong on our side. Try again after a short wait, and report the request_id if it goes on.",
	}
}

// document is the body of a problem, its members in the order of
// docs/contract/service.md, "Errors".
func (p *Error) document(docsURL, requestID string) ([]byte, error) {
	document := struct {
		Type      string       `json:"type"`
		Title     string       `json:"title"`
		Status    int          `json:"status"`
		Detail    string       `json:"detail"`
		RequestID string       `json:"request_id"`
		MovedTo   string       `json:"moved_to,omitempty"`
		Errors    []ParamError `json:"errors,omitempty"`
	}{
		Type:      docsURL + "/errors/" + strconv.Itoa(p.Status),
		Title:     Title(p.Status),
		Status:    p.Status,
		Detail:    p.Detail,
		RequestID: requestID,
		MovedTo:   p.MovedTo,
		Errors:    p.Errors,
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(document); err != nil {
		return nil, fmt.Errorf("write a problem document: %w", err)
	}
	return b.Bytes(), nil
}
