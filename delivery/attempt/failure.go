package attempt

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
)

// Outcome classifies the result of an attempt, for metrics and counts.
type Outcome string

// The outcomes.
const (
	OutcomeSuccess     Outcome = "success"
	OutcomeAnswered    Outcome = "answered"    // with a status other than 2xx
	OutcomeTimeout     Outcome = "timeout"     // no answer in time
	OutcomeUnreachable Outcome = "unreachable" // no address, or no connection
	OutcomeTLS         Outcome = "tls"         // no TLS connection, or a certificate that is not valid
	OutcomeBlocked     Outcome = "blocked"     // the address is not public
	OutcomeBroken      Outcome = "broken"      // a response that is not HTTP, or is cut off
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome {
	return []Outcome{
		OutcomeSuccess, OutcomeAnswered, OutcomeTimeout, OutcomeUnreachable,
		OutcomeTLS, OutcomeBlocked, OutcomeBroken,
	}
}

// stage is how far an attempt got.
type stage int32

const (
	stageConnect stage = iota
	stageTLS
	stageAnswer
)

// stageError is a failure to connect, with the stage at which it happened.
type stageError struct {
	at  stage
	err error
}

func (e *stageError) Error() string { return e.err.Error() }
func (e *stageError) Unwrap() error { return e.err }

// explainStatus returns the outcome of a response, and in words why it is not a
// success.
func explainStatus(status int) (Outcome, string) {
	switch {
	case status >= 200 && status <= 299:
		return OutcomeSuccess, ""
	case isRedirect(status):
		return OutcomeAnswered, fmt.Sprintf("answered %d, a redirect, which is not followed", status)
	}
	if text := http.StatusText(status); text != "" {
		return OutcomeAnswered, fmt.Sprintf("answered %d (%s)", status, text)
	}
	return OutcomeAnswered, fmt.Sprintf("answered %d", status)
}

// isRedirect reports whether a status redirects to another address (RFC 9110, 15.4). Other 3xx
// statuses, such as 304, do not.
func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// explain says why an attempt got no response, in words for people in a finance
// department. reached is the stage at which it failed.
func explain(err error, reached stage, timeout time.Duration) (Outcome, string) {
	var failed *stageError
	if errors.As(err, &failed) {
		reached = failed.at
	}
	var dns *net.DNSError
	switch {
	case errors.Is(err, errNotPublic):
		return OutcomeBlocked, "the address is not public"
	case errors.As(err, &dns) && dns.IsNotFound:
		return OutcomeUnreachable, "the name did not resolve"
	case errors.As(err, &dns):
		return OutcomeUnreachable, "the name could not be looked up"
	case isTimeout(err):
		return OutcomeTimeout, timedOut(reached, timeout)
	}
	if outcome, words := explainTLS(err, reached); words != "" {
		return outcome, words
	}
	return explainConnection(err, reached)
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.As(err, &ne) && ne.Timeout()
}

func timedOut(reached stage, timeout time.Duration) string {
	switch reached {
	case stageConnect:
		return fmt.Sprintf("no connection within %v", timeout)
	case stageTLS:
		return fmt.Sprintf("no agreement on encryption (TLS) within %v", timeout)
	default:
		return fmt.Sprintf("no answer within %v", timeout)
	}
}

func explainTLS(err error, reached stage) (Outcome, string) {
	var (
		invalid   x509.CertificateInvalidError
		otherName x509.HostnameError
		unknown   x509.UnknownAuthorityError
		record    tls.RecordHeaderError
		verify    *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		if strings.Contains(invalid.Detail, "before") {
			return OutcomeTLS, "the certificate is not valid yet"
		}
		return OutcomeTLS, "the certificate has expired"
	case errors.As(err, &otherName):
		return OutcomeTLS, "the certificate is for another name"
	case errors.As(err, &unknown):
		return OutcomeTLS, "the certificate is not signed by a known authority"
	case errors.As(err, &invalid), errors.As(err, &verify):
		return OutcomeTLS, "the certificate is not valid"
	case errors.As(err, &record):
		return OutcomeTLS, "the receiver does not speak TLS (https)"
	case isAlert(err), reached == stageTLS && strings.Contains(err.Error(), "tls: "):
		if strings.Contains(err.Error(), "version") {
			return OutcomeTLS, "the receiver does not offer TLS 1.2 or newer"
		}
		return OutcomeTLS, "the receiver refused the encrypted connection"
	}
	return "", ""
}

// isAlert reports whether an error is a TLS alert from either side. In TLS 1.3 the client completes
// its handshake before the receiver has checked the client's certificate, or noticed that there is
// none. An alert about that arrives in place of an answer. It has no type of its own, and HTTP/2
// passes on only its text.
func isAlert(err error) bool {
	return strings.Contains(err.Error(), "remote error: tls: ") || strings.Contains(err.Error(), "local error: tls: ")
}

func explainConnection(err error, reached stage) (Outcome, string) {
	text := err.Error()
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return OutcomeUnreachable, "the connection was refused"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return OutcomeUnreachable, "there is no way to the address"
	case strings.Contains(text, "headers exceeded"), strings.Contains(text, "header list"), strings.Contains(text, "1xx"):
		return OutcomeBroken, "the answer's headers are longer than 16 KiB"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), strings.Contains(text, "stream error"):
		return OutcomeBroken, "the connection was reset"
	case errors.Is(err, errTooManyDials), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.Contains(text, "GOAWAY"),
		strings.Contains(text, "connection closed"), strings.Contains(text, "server closed"):
		return OutcomeBroken, "the connection was closed without an answer"
	case strings.Contains(text, "PROTOCOL_ERROR"): // also the client's error for HTTP/2 headers over the limit
		return OutcomeBroken, "the answer is not HTTP, or its headers are longer than 16 KiB"
	case reached == stageConnect:
		return OutcomeUnreachable, "no connection could be made"
	case reached == stageTLS:
		return OutcomeTLS, "no agreement on encryption (TLS)"
	}
	return OutcomeBroken, "the answer is not HTTP"
}
