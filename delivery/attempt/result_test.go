package attempt

import "testing"

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
