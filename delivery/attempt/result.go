package attempt

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Result is the result of one attempt.
type Result struct {
	At       time.Time     // start
	Duration time.Duration // until the response was read or given up
	Status   int           // HTTP status; 0: no response
	Outcome  Outcome
	Error    string // why it failed, in words; empty: success
	Answer   string // first KiB of the response body, as text

	// RetryAfter is the earliest time for the next attempt that the receiver asked for in a 429 or
	// 503; zero: it did not ask.
	RetryAfter time.Time

	// Handshake is true if the attempt began a TLS handshake.
	Handshake bool
}

// Success reports whether the receiver accepted the message.
func (r *Result) Success() bool { return r.Outcome == OutcomeSuccess }

// Gone reports whether the receiver says that it wants no more messages (410).
func (r *Result) Gone() bool { return r.Status == http.StatusGone }

// Ended returns the end of the attempt.
func (r *Result) Ended() time.Time { return r.At.Add(r.Duration) }

// Costly reports whether the attempt failed and cost much more than an answered one: it began a TLS
// handshake, which takes processor time, or had no response in time and kept its slot until then.
func (r *Result) Costly() bool {
	return !r.Success() && (r.Handshake || r.Outcome == OutcomeTimeout)
}

// retryAfter returns the earliest time for the next attempt that an overloaded receiver asks for
// (RFC 9110, 10.2.3); zero: it does not ask.
func retryAfter(status int, header http.Header, now time.Time) time.Time {
	if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return time.Time{}
	}
	const longest = 366 * 24 * time.Hour // the retry policy has a bound of its own
	text := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return now.Add(time.Duration(min(seconds, uint64(longest/time.Second))) * time.Second)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return time.Time{}
	}
	return at
}

// AppendJSON appends the form in which an attempt is stored and shown to users:
// {"at","status","error","duration_ms","answer"}.
func (r *Result) AppendJSON(b []byte) []byte {
	b = append(b, `{"at":"`...)
	b = domain.AppendTime(b, r.At)
	b = append(b, `","status":`...)
	if r.Status == 0 {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, int64(r.Status), 10)
	}
	b = append(b, `,"error":`...)
	b = appendText(b, r.Error)
	b = append(b, `,"duration_ms":`...)
	b = strconv.AppendInt(b, r.Duration.Milliseconds(), 10)
	b = append(b, `,"answer":`...)
	return append(appendText(b, r.Answer), '}')
}

// appendText appends a JSON string, or null for an empty text.
func appendText(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return append(b, "null"...) // cannot happen: every string has a JSON form
	}
	return append(b, text...)
}
