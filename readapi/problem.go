package readapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/access/limit"
)

// problem is an answer that is an error, in the words of RFC 9457. It is the
// only kind of error whose text callers see.
type problem struct {
	status     int
	detail     string
	errors     []paramError
	retryAfter int // seconds; 0: no such header
	challenge  bool
	allow      bool
	refusal    Refusal // not listed in the request log but counted; empty: listed
	cause      error   // for the log alone
}

// paramError is one wrong parameter.
type paramError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Error is for logs.
func (p *problem) Error() string {
	if p.cause != nil {
		return fmt.Sprintf("%d: %v", p.status, p.cause)
	}
	return fmt.Sprintf("%d: %s", p.status, p.detail)
}

// Unwrap returns the cause.
func (p *problem) Unwrap() error { return p.cause }

// statusInvalidHeaders is the status for headers beyond their limit.
const statusInvalidHeaders = http.StatusRequestHeaderFieldsTooLarge

// titleOf is the title of a problem of a status.
func titleOf(status int) string {
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
	case statusInvalidHeaders:
		return "The request's headers are too large"
	case http.StatusServiceUnavailable:
		return "Briefly unavailable"
	}
	return "Internal error"
}

// Problems that are the same for every path.

func methodNotAllowed() *problem {
	return &problem{
		status: http.StatusMethodNotAllowed, allow: true, refusal: RefusedMethod,
		detail: "This API is read only. Use GET, HEAD or OPTIONS.",
	}
}

func keyInURL() *problem {
	return &problem{
		status: http.StatusBadRequest, refusal: RefusedKeyInURL,
		detail: "The address holds an API key, or a parameter that is meant for one. Addresses end up in logs and histories, so " +
			"replace the key if it was a real one, and send keys only in the header Authorization: Bearer <API_KEY>.",
	}
}

func notHTTP() *problem {
	return &problem{
		status: http.StatusBadRequest, refusal: RefusedNotHTTP,
		detail: "This is no HTTP request that the service understands: its request line, a header or its coding is malformed.",
	}
}

func headersTooLarge() *problem {
	return &problem{
		status: statusInvalidHeaders, refusal: RefusedHeaders,
		detail: fmt.Sprintf("The request line and headers are longer than %d bytes together.", MaxHeaderBytes),
	}
}

func unauthorized(reason access.Reason) *problem {
	return &problem{
		status: http.StatusUnauthorized, challenge: true, refusal: Refusal(reason),
		detail: "Send a valid API key in the header Authorization: Bearer <API_KEY>. The key is missing, unknown, revoked or expired.",
	}
}

func tooManyRefusedKeys(reset int) *problem {
	return &problem{
		status: http.StatusTooManyRequests, retryAfter: reset, refusal: RefusedSlowDown,
		detail: fmt.Sprintf("This address has sent more than %d refused keys within a minute. Wait %d seconds and send a valid key.",
			limit.RefusedKeysPerMinute, reset),
	}
}

func tooManyRequests(a limit.Allowance) *problem {
	return &problem{
		status: http.StatusTooManyRequests, retryAfter: a.Reset, refusal: RefusedRateLimit,
		detail: fmt.Sprintf("This key may make %d requests a minute. Wait %d seconds, then go on.", a.Limit, a.Reset),
	}
}

func unknownPath() *problem {
	return &problem{status: http.StatusNotFound, detail: "There is nothing at this path. Paths begin with /v1 and end without a slash."}
}

func unknownID(what string) *problem {
	return &problem{status: http.StatusNotFound, detail: "There is no " + what + " with this id that this key may see."}
}

func lacksPermission(p access.Permission) *problem {
	return &problem{status: http.StatusForbidden, detail: "This key lacks the permission " + string(p) + "."}
}

func wrongParams(errs []paramError) *problem {
	detail := "A parameter is wrong; errors says which and why."
	switch n := len(errs); {
	case n == maxNamedParams:
		detail = strconv.Itoa(n) + " parameters or more are wrong; errors says which the first of them are, and why."
	case n > 1:
		detail = strconv.Itoa(n) + " parameters are wrong; errors says which and why."
	}
	return &problem{status: http.StatusBadRequest, detail: detail, errors: errs}
}

// retryUnavailable is the Retry-After of a 503, in seconds.
const retryUnavailable = 2

func unavailable(cause error) *problem {
	return &problem{
		status: http.StatusServiceUnavailable, retryAfter: retryUnavailable, cause: cause,
		detail: "The service cannot answer at the moment. Try again, with growing waits.",
	}
}

func internal(cause error) *problem {
	return &problem{
		status: http.StatusInternalServerError, cause: cause,
		detail: "Something went wrong on our side. Try again after a short wait, and report the request_id if it goes on.",
	}
}

// problemOf turns any error into a problem. What is not known is a fault of the
// server, and its text stays inside.
func problemOf(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	if isAway(err) {
		return unavailable(err)
	}
	return internal(err)
}

// isAway reports whether an error means that the database, or time, is what is
// missing, so that the same request may succeed a little later.
func isAway(err error) bool {
	var (
		refused  *pgconn.ConnectError
		network  net.Error
		database *pgconn.PgError
	)
	switch {
	case errors.Is(err, access.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return true
	case errors.As(err, &database):
		// The classes of PostgreSQL's Appendix A: connections, resources,
		// operator's intervention, system errors; and a standby that had to end
		// the statement.
		if len(database.Code) < 2 {
			return false
		}
		switch database.Code[:2] {
		case "08", "53", "57", "58", "40":
			return true
		}
		return false
	}
	return errors.As(err, &refused) || errors.As(err, &network) || pgconn.SafeToRetry(err) || isBroken(err)
}

// appendProblem writes the document, its members in the order of
// docs/contract/service.md, "Errors".
func (c *call) appendProblem(p *problem) ([]byte, error) {
	document := struct {
		Type      string       `json:"type"`
		Title     string       `json:"title"`
		Status    int          `json:"status"`
		Detail    string       `json:"detail"`
		RequestID string       `json:"request_id"`
		Errors    []paramError `json:"errors,omitempty"`
	}{
		Type:      c.api.cfg.DocsURL + "/errors/" + strconv.Itoa(p.status),
		Title:     titleOf(p.status),
		Status:    p.status,
		Detail:    p.detail,
		RequestID: c.requestID,
		Errors:    p.errors,
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(document); err != nil {
		return nil, fmt.Errorf("write a problem document: %w", err)
	}
	return b.Bytes(), nil
}
