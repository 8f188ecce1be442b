package ingestapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// Codes of problems. A code that the read API has, too, means the same there.
const (
	codeInvalidEntries      = "invalid_entries"
	codeInvalidParameter    = "invalid_parameter"
	codeKeyInURL            = "key_in_url"
	codeUnauthorized        = "unauthorized"
	codePermissionMissing   = "permission_missing"
	codeNotFound            = "not_found"
	codeMethodNotAllowed    = "method_not_allowed"
	codeTooSlow             = "too_slow"
	codeRefusedEntries      = "refused_entries"
	codeTooLarge            = "too_large"
	codeUnsupportedEncoding = "unsupported_encoding"
	codeBusy                = "busy"
	codeUnavailable         = "unavailable"
	codeUnknownOutcome      = "unknown_outcome"
	codeInternal            = "internal"
)

// meaning is a code with its status, and what it means and what to do.
type meaning struct {
	code   string
	status int
	text   string
}

// meanings are all codes.
func meanings() []meaning {
	return []meaning{
		{codeInvalidEntries, http.StatusBadRequest, "Entries have a wrong form, or the body cannot be read. errors names each line and field. Fix the entries."},
		{codeInvalidParameter, http.StatusBadRequest, "A parameter or header is wrong. errors names it."},
		{codeKeyInURL, http.StatusBadRequest, "The URL holds a key. Send it in the header Authorization, and replace it."},
		{codeUnauthorized, http.StatusUnauthorized, "The producer's key is missing, unknown, revoked or replaced. An API key is no producer's key."},
		{codePermissionMissing, http.StatusForbidden, "The key may not append to a workspace, or not entries of a type. errors names the lines, beside any with other faults."},
		{codeNotFound, http.StatusNotFound, "There is nothing at this path. Entries go to /entries."},
		{codeMethodNotAllowed, http.StatusMethodNotAllowed, "The path has other methods, which Allow lists."},
		{codeTooSlow, http.StatusRequestTimeout, "The body did not come in time. Send the same request again."},
		{codeRefusedEntries, http.StatusConflict, "The log refuses entries: it holds an id with other content, or created_at is before the newest entry or ahead of now. errors names the lines. Leave created_at out unless the entry is history from elsewhere: producers that send the time of now overtake each other. Sending the same request again does not help."},
		{codeTooLarge, http.StatusRequestEntityTooLarge, "The body is too large, or has too many entries. Send several requests."},
		{codeUnsupportedEncoding, http.StatusUnsupportedMediaType, "Content-Encoding is not gzip, zstd or identity."},
		{codeBusy, http.StatusTooManyRequests, "This key, its workspace or all producers together have as much under way as they may. Send the same request again after the seconds in Retry-After."},
		{codeUnavailable, http.StatusServiceUnavailable, "The entries cannot be appended now; nothing was appended. Send the same request again after the seconds in Retry-After."},
		{codeUnknownOutcome, http.StatusServiceUnavailable, "The entries may or may not have been appended. Send the same request again: what was appended is skipped."},
		{codeInternal, http.StatusInternalServerError, "A fault of the service. Send the same request again after a short wait, and report the request_id if it goes on."},
	}
}

// title is the title of problems with a status.
func title(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "The request is wrong"
	case http.StatusUnauthorized:
		return "No valid producer's key"
	case http.StatusForbidden:
		return "The key may not append this"
	case http.StatusNotFound:
		return "Not found"
	case http.StatusMethodNotAllowed:
		return "Method not allowed"
	case http.StatusRequestTimeout:
		return "The body came too slowly"
	case http.StatusConflict:
		return "The log refuses entries"
	case http.StatusRequestEntityTooLarge:
		return "The request is too large"
	case http.StatusUnsupportedMediaType:
		return "Unknown encoding"
	case http.StatusTooManyRequests:
		return "Too much under way"
	case http.StatusServiceUnavailable:
		return "Briefly unavailable"
	}
	return "Internal error"
}

// problem is an error that is answered with a problem document (RFC 9457). It is the only kind of
// error whose text callers see.
type problem struct {
	Status     int
	Code       string
	Detail     string
	Errors     []fault
	RetryAfter int    // seconds; 0: no such header
	MovedTo    string // the address of the API that has the workspace now
	Cause      error  // for the log

	close bool // the rest of the body is not read
}

// fault is what is wrong with a line, a parameter or a header.
type fault struct {
	Line    int    `json:"line,omitempty"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

// Error is the text for logs.
func (p *problem) Error() string {
	if p.Cause != nil {
		return fmt.Sprintf("%d: %v", p.Status, p.Cause)
	}
	return fmt.Sprintf("%d: %s", p.Status, p.Detail)
}

// Unwrap returns the cause.
func (p *problem) Unwrap() error { return p.Cause }

// maxFaults bounds the faults in an answer, which could be far larger than the request.
const maxFaults = 100

// invalidEntries is the answer to a body in which some lines have faults. lines is how many.
func invalidEntries(faults []fault, lines int) *problem {
	return &problem{Status: http.StatusBadRequest, Code: codeInvalidEntries, Errors: firstOf(faults), Detail: detail(lines, "has a fault", "have faults", len(faults))}
}

func firstOf(faults []fault) []fault { return faults[:min(len(faults), maxFaults)] }

// detail says how many lines are meant, and that nothing was appended.
func detail(lines int, one, several string, faults int) string {
	text := texts.Count(lines, "line "+one, "lines "+several) + "; errors says what is wrong"
	if faults > maxFaults {
		text += " with the first of them, in " + texts.Count(maxFaults, "row", "rows")
	}
	return text + ". Nothing was appended."
}

func wrongParameter(field, message string) *problem {
	return &problem{Status: http.StatusBadRequest, Code: codeInvalidParameter, Errors: []fault{{Field: field, Message: message}}, Detail: "A parameter or header is wrong; errors says which and why. Nothing was appended."}
}

func internal(cause error) *problem {
	return &problem{
		Status: http.StatusInternalServerError, Code: codeInternal, Cause: cause,
		Detail: "Something went wrong on our side. Send the same request again after a short wait, and report the request_id if it goes on.",
	}
}

func unavailable(cause error) *problem {
	return &problem{
		Status: http.StatusServiceUnavailable, Code: codeUnavailable, RetryAfter: 2, Cause: cause,
		Detail: "The service cannot append at the moment. Nothing was appended: send the same request again, with growing waits.",
	}
}

func busy(text string) *problem {
	return &problem{Status: http.StatusTooManyRequests, Code: codeBusy, RetryAfter: 1, Detail: text + " Nothing was appended: send the same request again after the seconds in Retry-After."}
}

// RefuseConnection is the whole answer to a connection for which the listener has no place; nil: there is
// none.
func RefuseConnection(string) []byte {
	p := &problem{
		Status: http.StatusServiceUnavailable, Code: codeUnavailable, RetryAfter: 10,
		Detail: "There are as many connections as this address of the service, or one caller, may have. Nothing was appended: send the same request again after the seconds in Retry-After, and keep fewer connections.",
	}
	body, err := json.Marshal(p.document(newRequestID()))
	if err != nil {
		return nil // it has texts and numbers alone
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\nRetry-After: %d\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
		p.Status, http.StatusText(p.Status), p.RetryAfter, len(body), body)
}

// write answers with the problem document.
func (p *problem) write(w http.ResponseWriter, requestID string) error {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusUnsupportedMediaType:
		h.Set("Accept-Encoding", encodings)
	}
	if p.close {
		h.Set("Connection", "close")
	}
	return writeJSON(w, p.Status, p.document(requestID))
}

// document is the problem as it is answered.
func (p *problem) document(requestID string) any {
	return struct {
		Type      string  `json:"type"`
		Title     string  `json:"title"`
		Status    int     `json:"status"`
		Code      string  `json:"code"`
		Detail    string  `json:"detail"`
		RequestID string  `json:"request_id"`
		MovedTo   string  `json:"moved_to,omitempty"`
		Errors    []fault `json:"errors,omitempty"`
	}{errorsPath + strconv.Itoa(p.Status), title(p.Status), p.Status, p.Code, p.Detail, requestID, p.MovedTo, p.Errors}
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write an answer: %w", err)
	}
	return nil
}
