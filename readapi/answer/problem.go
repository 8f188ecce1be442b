package answer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// Error is an error that is answered with a problem document (RFC 9457). It is the only
// kind of error whose text callers see.
type Error struct {
	Status     int
	Code       Code
	Detail     string
	Errors     []ParamError
	RetryAfter int     // seconds; 0: no such header
	Refusal    Refusal // empty: the request was not refused
	MovedTo    string  // the address that serves the workspace now; empty: this one, or unknown

	// Only for the log.
	Cause error
	Lacks access.Permission // the permission that the key would need; empty: none
}

// ParamError is one wrong parameter.
type ParamError struct {
	Field   string `json:"field"`
	Message string `json:"message"`

	// Unknown: the field is a text of the caller, which may hold a key or anything else.
	Unknown bool `json:"-"`
}

// Refusal is why a request was refused before it reached an endpoint. Refused requests are counted
// by the minute, not listed (docs/contract/service.md, "Limits", 6).
type Refusal string

// The refusals. Refused keys have the reasons of package access.
const (
	RefusedMethod    Refusal = "method"
	RefusedHeaders   Refusal = "headers"
	RefusedNotHTTP   Refusal = "not_http"
	RefusedKeyInURL  Refusal = "key_in_url"
	RefusedSlowDown  Refusal = "slow_down"
	RefusedRateLimit Refusal = "rate_limit"
)

// Code is a stable word for what is wrong, for programs (docs/contract/service.md, "Errors").
type Code string

// The codes.
const (
	CodeInvalidParameter   Code = "invalid_parameter"
	CodeCursorInvalid      Code = "cursor_invalid"
	CodeCursorReset        Code = "cursor_reset"
	CodeCursorPermissions  Code = "cursor_permissions"
	CodeEventsMissed       Code = "events_missed"
	CodeKeyInURL           Code = "key_in_url"
	CodeUnauthorized       Code = "unauthorized"
	CodePermissionMissing  Code = "permission_missing"
	CodeNotFound           Code = "not_found"
	CodeMethodNotAllowed   Code = "method_not_allowed"
	CodeRateLimited        Code = "rate_limited"
	CodeAddressSlowedDown  Code = "address_slowed_down"
	CodePositionNotReached Code = "position_not_reached"
	CodeHeadersTooLarge    Code = "headers_too_large"
	CodeBusy               Code = "busy"
	CodeUnavailable        Code = "unavailable"
	CodeInternal           Code = "internal"
)

// Codes returns all codes, in the order of the contract, with their statuses.
func Codes() []CodeOfStatus {
	return []CodeOfStatus{
		{CodeInvalidParameter, []int{http.StatusBadRequest}, "A parameter or header is wrong, or the request cannot be read as HTTP. Fix the request."},
		{CodeCursorInvalid, []int{http.StatusBadRequest}, "The cursor was altered, another parameter is not what it was when the cursor was given, the cursor has the form of an earlier version, or the service was set up anew since. Restore the other parameters, or start again without a cursor, with an empty copy."},
		{CodeCursorReset, []int{http.StatusBadRequest}, "The service went back to an earlier state than that of the cursor, so your copy may hold rows that no longer exist and that no page reports as removed. Empty your copy, and read again what the row in errors names."},
		{CodeCursorPermissions, []int{http.StatusBadRequest}, "This key sees more than the key that the cursor was given to, so rows or fields that it may see were left out before. Start again without a cursor."},
		{CodeEventsMissed, []int{http.StatusBadRequest}, "The event after the cursor is no longer kept, so events have been missed. Read the lists again, and start again with created_since."},
		{CodeKeyInURL, []int{http.StatusBadRequest}, "The URL holds an API key. Send it in the header Authorization, and replace it if it was a real one."},
		{CodeUnauthorized, []int{http.StatusUnauthorized}, "The key is missing, unknown, revoked or expired. Send a valid one."},
		{CodePermissionMissing, []int{http.StatusForbidden}, "The key lacks the permission that detail names. Make a key that has it."},
		{CodeNotFound, []int{http.StatusNotFound}, "There is nothing at this path that this key may see."},
		{CodeMethodNotAllowed, []int{http.StatusMethodNotAllowed}, "The API is read only. Use GET, HEAD or OPTIONS."},
		{CodeRateLimited, []int{http.StatusTooManyRequests}, "The key has used up its requests of this minute. Wait the seconds in Retry-After."},
		{CodeAddressSlowedDown, []int{http.StatusTooManyRequests}, "Too many refused keys came from this address. Wait the seconds in Retry-After, and send a valid key."},
		{CodePositionNotReached, []int{http.StatusServiceUnavailable}, "The position in Log-Position-At-Least was not reached in time. Try again."},
		{CodeHeadersTooLarge, []int{http.StatusRequestHeaderFieldsTooLarge}, "The request line and headers are too large. Send fewer or shorter ones."},
		{CodeBusy, []int{http.StatusTooManyRequests, http.StatusServiceUnavailable}, "A share of the service is used up: of whole lists, pages, waits or connections. Try again after the seconds in Retry-After, with fewer requests at the same time."},
		{CodeUnavailable, []int{http.StatusServiceUnavailable}, "The service cannot answer at the moment. Try again after the seconds in Retry-After."},
		{CodeInternal, []int{http.StatusInternalServerError}, "A fault of the service. Try again after a short wait, and report the request_id if it goes on."},
	}
}

// CodeOfStatus is a code with its statuses and its meaning.
type CodeOfStatus struct {
	Code     Code
	Statuses []int
	Meaning  string // what it means and what to do, in sentences
}

// Error is the text for logs.
func (p *Error) Error() string {
	if p.Cause != nil {
		return fmt.Sprintf("%d: %v", p.Status, p.Cause)
	}
	return fmt.Sprintf("%d: %s", p.Status, p.Detail)
}

// Unwrap returns the cause.
func (p *Error) Unwrap() error { return p.Cause }

// Title returns the title of problems with a status.
func Title(status int) string { return cmp.Or(titles[status], "Internal error") }

// titles has the title of each status.
//
//nolint:gochecknoglobals // a constant table
var titles = map[int]string{
	http.StatusBadRequest:                  "The request is wrong",
	http.StatusUnauthorized:                "No valid API key",
	http.StatusForbidden:                   "The key lacks a permission",
	http.StatusNotFound:                    "Not found",
	http.StatusMethodNotAllowed:            "Method not allowed",
	http.StatusTooManyRequests:             "Too many requests",
	http.StatusRequestHeaderFieldsTooLarge: "The request's headers are too large",
	http.StatusServiceUnavailable:          "Briefly unavailable",
}

// MaxHeaderBytes is how large the request line and headers of a request may be
// together.
const MaxHeaderBytes = 16 << 10

// HeadersTooLarge is the answer to a request beyond MaxHeaderBytes.
func HeadersTooLarge() *Error {
	return &Error{
		Status: http.StatusRequestHeaderFieldsTooLarge, Code: CodeHeadersTooLarge, Refusal: RefusedHeaders,
		Detail: fmt.Sprintf("The request line and headers are longer than %d bytes together.", MaxHeaderBytes),
	}
}

// NotHTTP is the answer to input that the server could not read as a request.
func NotHTTP() *Error {
	return &Error{
		Status: http.StatusBadRequest, Code: CodeInvalidParameter, Refusal: RefusedNotHTTP,
		Detail: "This is no HTTP request that the service understands: its request line, a header or its coding is malformed.",
	}
}

// MethodNotAllowed is the answer to a method that is not in AllowedMethods.
func MethodNotAllowed() *Error {
	return &Error{
		Status: http.StatusMethodNotAllowed, Code: CodeMethodNotAllowed, Refusal: RefusedMethod,
		Detail: "This API is read only. Use GET, HEAD or OPTIONS.",
	}
}

// KeyInURL is the answer to a URL that holds a key.
func KeyInURL() *Error {
	return &Error{
		Status: http.StatusBadRequest, Code: CodeKeyInURL, Refusal: RefusedKeyInURL,
		Detail: "The address holds an API key, or a parameter that is meant for one. Addresses end up in logs and histories, so " +
			"replace the key if it was a real one, and send keys only in the header Authorization: Bearer <API_KEY>.",
	}
}

// TooManyRefusedKeys is the answer to a refused key of an address that is slowed
// down for another reset seconds.
func TooManyRefusedKeys(reset int) *Error {
	return &Error{
		Status: http.StatusTooManyRequests, Code: CodeAddressSlowedDown, RetryAfter: reset, Refusal: RefusedSlowDown,
		Detail: fmt.Sprintf("This address has sent more than %d refused keys within a minute. Wait %s and send a valid key.",
			access.RefusedKeysPerMinute, texts.Count(reset, "second", "seconds")),
	}
}

// Unauthorized is the answer to a request without a valid key. All reasons look the
// same to the caller.
func Unauthorized(reason access.Reason, cause error) *Error {
	return &Error{
		Status: http.StatusUnauthorized, Code: CodeUnauthorized, Refusal: Refusal(reason), Cause: cause,
		Detail: "Send a valid API key in the header Authorization: Bearer <API_KEY>. The key is missing, unknown, revoked or expired.",
	}
}

// TooManyRequests is the answer to a key whose rate limit is reached.
func TooManyRequests(a access.Allowance) *Error {
	return &Error{
		Status: http.StatusTooManyRequests, Code: CodeRateLimited, RetryAfter: a.Reset, Refusal: RefusedRateLimit,
		Detail: fmt.Sprintf("This key may make %s a minute. Wait %s, then go on.", texts.Count(a.Limit, "request", "requests"), texts.Count(a.Reset, "second", "seconds")),
	}
}

// UnknownPath is the answer to a path that is not an endpoint.
func UnknownPath() *Error {
	return &Error{Status: http.StatusNotFound, Code: CodeNotFound, Detail: "There is nothing at this path. Paths begin with /v1 and end without a slash."}
}

// LacksPermission is the answer to a key that lacks an endpoint's permission.
func LacksPermission(p access.Permission) *Error {
	return &Error{Status: http.StatusForbidden, Code: CodePermissionMissing, Lacks: p, Detail: "This key lacks the permission " + string(p) + "."}
}

// MaxParamErrors is how many wrong parameters one answer names. Nobody gets that
// many wrong by mistake; without a limit, a query of thousands of invented names
// would be answered with a hundred times its own size.
const MaxParamErrors = 100

// WrongParams is the answer to wrong parameters, at most MaxParamErrors of them.
func WrongParams(errs []ParamError) *Error {
	var detail string
	switch n := len(errs); {
	case n == 1 && errs[0].Unknown: // the request log keeps detail
		detail = "A parameter is wrong; errors says which and why."
	case n == 1: // a program that logs detail alone shows what is wrong
		detail = "A parameter is wrong: " + errs[0].Field + " " + strings.TrimSuffix(errs[0].Message, ".") + "."
	case n == MaxParamErrors:
		detail = strconv.Itoa(n) + " parameters or more are wrong; errors says which the first of them are, and why."
	case n > 1:
		detail = strconv.Itoa(n) + " parameters are wrong; errors says which and why."
	}
	return &Error{Status: http.StatusBadRequest, Code: CodeInvalidParameter, Detail: detail, Errors: errs}
}

// WrongCursor is the answer if a list cannot continue at the cursor and nothing else is wrong.
func WrongCursor(code Code, message string) *Error {
	e := WrongParams([]ParamError{{Field: "cursor", Message: message}})
	e.Code = code
	return e
}

// UnknownID is the answer to an id that does not exist or that the key may not see. label names the
// kind of object, such as "time entry".
func UnknownID(label string) *Error {
	return &Error{Status: http.StatusNotFound, Code: CodeNotFound, Detail: "There is no " + label + " with this id that this key may see."}
}

// Unsigned is the answer to a request for a checkpoint if there is no signing key.
func Unsigned() *Error {
	return &Error{Status: http.StatusNotFound, Code: CodeNotFound, Detail: "There are no checkpoints, because the operator of the service has given it no signing key."}
}

// UnknownTile is the answer to the path of a tile that the tree does not have.
func UnknownTile() *Error {
	return &Error{
		Status: http.StatusNotFound, Code: CodeNotFound,
		Detail: "The tree of the events that this key may see has no such tile, or not so many hashes of it yet, or its events are no longer kept. " +
			"A path is as c2sp.org/tlog-tiles says, such as 000.p/17 or x001/234.",
	}
}

// The Retry-After of a 503, in seconds.
const (
	retryUnavailable = 2
	retryRebuilding  = 30
)

// retryExpensive is the Retry-After, in seconds, of a 503 that the same requests would cause again.
const retryExpensive = 10

// Unavailable is the answer if the database is unavailable or time ran out.
func Unavailable(cause error) *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Code: CodeUnavailable, RetryAfter: retryUnavailable, Cause: cause,
		Detail: "The service cannot answer at the moment. Try again, with growing waits.",
	}
}

// Moved is the answer to every request about a workspace that has moved to another database. to is
// the address of the API there; empty: unknown. It is a 503, so that clients try again: most use a
// host name that will soon lead to the new place. A redirect would make them drop the key, or send
// it to another host unasked.
func Moved(to string) *Error {
	e := &Error{Status: http.StatusServiceUnavailable, Code: CodeUnavailable, RetryAfter: retryMoved, MovedTo: to}
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
		Status: http.StatusServiceUnavailable, Code: CodePositionNotReached, RetryAfter: retryUnavailable,
		Detail: fmt.Sprintf("The service has not reached log position %d yet, which Log-Position-At-Least asks for. Retry, with growing waits. "+
			"If that does not help, the position belongs to another workspace or to data that the service no longer holds.", position),
	}
}

// TooManyWaits is the answer to a request that would wait for its Log-Position-At-Least while
// too many wait already.
func TooManyWaits(position int64) *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Code: CodeBusy, RetryAfter: retryUnavailable,
		Detail: fmt.Sprintf("The service has not reached log position %d yet, and too many requests with this key, in its workspace or in total already wait for positions. Retry, with growing waits.", position),
	}
}

// Crowded is the answer to a connection that the service has no place for.
func Crowded() *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Code: CodeBusy, RetryAfter: retryExpensive,
		Detail: "The service holds as many connections as it can, in all or from your address. Send requests one after the other over a few connections that stay open.",
	}
}

// Busy is the answer to a page that waited too long because the workspace's other requests used its
// share.
func Busy() *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Code: CodeBusy, RetryAfter: retryExpensive,
		Detail: "Other requests of your workspace use all of its share of the service at the moment. Wait for answers before you send more requests.",
	}
}

// retryWholeList is the Retry-After, in seconds, if there is no place for a whole list.
const retryWholeList = 15

// TooManyWholeLists is the answer to a request for a whole list if the workspace reads as many as
// it may.
func TooManyWholeLists() *Error {
	return &Error{
		Status: http.StatusTooManyRequests, Code: CodeBusy, RetryAfter: retryWholeList,
		Detail: "Your workspace reads as many whole lists as it may at the same time. Read one after the other, or in pages.",
	}
}

// NoPlaceForWholeList is the answer to a request for a whole list if all workspaces together read
// as many as the service can send.
func NoPlaceForWholeList() *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Code: CodeBusy, RetryAfter: retryWholeList,
		Detail: "The service sends as many whole lists as it can at the moment. Try again a little later, or read the list in pages.",
	}
}

// TooExpensive is the answer to a page that the database could not read in time.
func TooExpensive(cause error) *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Code: CodeUnavailable, RetryAfter: retryExpensive, Cause: cause,
		Detail: "This page took the database longer than a request may take, and was given up. Send it again after the seconds in Retry-After. " +
			"If that does not help, and you have filters that each select many rows but hardly one together, ask with fewer of them, or with updated_since, and select the rest on your side.",
	}
}

// Rebuilding is the answer while a new version of the service prepares the data that the request
// asks for.
func Rebuilding(cause error) *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Code: CodeUnavailable, RetryAfter: retryRebuilding, Cause: cause,
		Detail: "The rows that have left the lists of this workspace are still being collected after an update of the service. Try again later, or without include=removed.",
	}
}

// Internal is the answer to every other fault of the service.
func Internal(cause error) *Error {
	return &Error{
		Status: http.StatusInternalServerError, Code: CodeInternal, Cause: cause,
		Detail: "Something went wrong on our side. Try again after a short wait, and report the request_id if it goes on.",
	}
}

// document returns the body of a problem. Its members are in the order of docs/contract/service.md,
// "Errors".
func (p *Error) document(docsURL, requestID string) ([]byte, error) {
	document := struct {
		Type      string       `json:"type"`
		Title     string       `json:"title"`
		Status    int          `json:"status"`
		Code      Code         `json:"code"`
		Detail    string       `json:"detail"`
		RequestID string       `json:"request_id"`
		MovedTo   string       `json:"moved_to,omitempty"`
		Errors    []ParamError `json:"errors,omitempty"`
	}{
		Type:      docsURL + "/errors/" + strconv.Itoa(p.Status),
		Title:     Title(p.Status),
		Status:    p.Status,
		Code:      p.Code,
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
