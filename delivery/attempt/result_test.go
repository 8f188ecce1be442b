package attempt

import (
	"net/http"
	"testing"
	"time"
)

// TestRetryAfter reads seconds and dates, of the two statuses that may say when to come again.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"60": time.Minute, " 120 ": 2 * time.Minute, "0": 0, "86400": 24 * time.Hour,
		"Sun, 01 Mar 2026 13:00:00 GMT": time.Hour, "Sunday, 01-Mar-26 13:00:00 GMT": time.Hour, "Sun Mar  1 13:00:00 2026": time.Hour,
		"Sun, 01 Mar 2026 11:00:00 GMT": -time.Hour,
		"99999999999999999999999999":    366 * 24 * time.Hour, "18446744073709551615": 366 * 24 * time.Hour,
	} {
		for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			if at := retryAfter(status, http.Header{"Retry-After": {text}}, now); !at.Equal(now.Add(want)) {
				t.Errorf("%d with %q: %v, want %v later", status, text, at, want)
			}
		}
		if at := retryAfter(http.StatusInternalServerError, http.Header{"Retry-After": {text}}, now); !at.IsZero() {
			t.Errorf("500 with %q: %v", text, at)
		}
	}
	for _, text := range []string{"", "soon", "-60", "+60", "1.5", "0x10", "60 seconds", "2026-03-01T13:00:00Z"} {
		if at := retryAfter(http.StatusServiceUnavailable, http.Header{"Retry-After": {text}}, now); !at.IsZero() {
			t.Errorf("%q: %v", text, at)
		}
	}
}

// TestCostly: a failure that ends soon over an open connection is not costly.
func TestCostly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		result Result
		want   bool
	}{
		{"a success", Result{Outcome: OutcomeSuccess}, false},
		{"a success over a new connection", Result{Outcome: OutcomeSuccess, Handshake: true}, false},
		{"an error response", Result{Outcome: OutcomeAnswered}, false},
		{"an error response over a new connection", Result{Outcome: OutcomeAnswered, Handshake: true}, true},
		{"no response", Result{Outcome: OutcomeTimeout}, true},
		{"no response over a new connection", Result{Outcome: OutcomeTimeout, Handshake: true}, true},
		{"a wrong certificate", Result{Outcome: OutcomeTLS, Handshake: true}, true},
		{"no connection", Result{Outcome: OutcomeUnreachable}, false},
		{"an address that is not public", Result{Outcome: OutcomeBlocked}, false},
	} {
		if got := c.result.Costly(); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}
