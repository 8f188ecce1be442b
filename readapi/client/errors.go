package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Code says why the API refused a request. The API may add codes.
type Code string

// The codes of the API. {docs}/errors/<status> explains each of them.
const (
	CodeInvalidParameter   Code = "invalid_parameter"
	CodeCursorInvalid      Code = "cursor_invalid"     // altered, of another installation, or another parameter differs
	CodeCursorReset        Code = "cursor_reset"       // the log went back to an earlier state
	CodeCursorPermissions  Code = "cursor_permissions" // the key sees more than the one before
	CodeEventsMissed       Code = "events_missed"      // the next event is no longer kept
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

// Error is an answer that refuses a request.
type Error struct {
	Path       string
	Status     int
	Code       Code   // empty if the answer is not the API's, for example a proxy's
	Detail     string // in words
	RequestID  string // tell it to the API's operator
	Parameters []ParameterError
	RetryAfter time.Duration // zero: the answer does not say

	movedTo string // the address that serves the workspace now
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s answered %d", e.Path, e.Status)
	if e.Code != "" {
		fmt.Fprintf(&b, " %s", e.Code)
	}
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %s", e.Detail)
	}
	for _, p := range e.Parameters {
		fmt.Fprintf(&b, " %s: %s.", p.Field, p.Message)
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, " (request %s)", e.RequestID)
	}
	return b.String()
}

// CodeOf is the code of the *Error that err is or wraps; empty if there is none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// refusal makes an Error from an answer. now is for a Retry-After that is a date.
func refusal(path string, status int, header http.Header, body []byte, now time.Time) *Error {
	e := &Error{Path: path, Status: status, RequestID: header.Get("X-Request-Id")}
	var problem Problem
	if json.Unmarshal(body, &problem) == nil {
		e.Code, e.Detail = Code(problem.Code), problem.Detail
		if problem.Errors != nil {
			e.Parameters = *problem.Errors
		}
		if problem.MovedTo != nil {
			e.movedTo = *problem.MovedTo
		}
	}
	if status/100 == 3 {
		e.Detail = "a redirect, which this client does not follow: set Config.URL to the API's own address"
	}
	after := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(after); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(after); err == nil {
		e.RetryAfter = max(0, at.Sub(now))
	}
	return e
}

// worthRetry says whether the same request may succeed later. 502 and 504 come from a proxy in
// front of a service that is down.
func (e *Error) worthRetry() bool {
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
