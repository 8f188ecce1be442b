package access

import "errors"

// ErrRefused means that a request has no valid key: 401. Every refusal of a
// Directory matches it, and to the caller of the API all look the same
// (docs/contract/decisions.md, "Requests", 4).
var ErrRefused = errors.New("the API key is refused")

// ErrUnavailable means that the database does not answer, so that it is unknown whether
// a key is valid: 503.
var ErrUnavailable = errors.New("API keys cannot be checked now")

// Reason is why a key was refused, for logs and metrics only.
type Reason string

// The reasons.
const (
	ReasonMissing   Reason = "missing"
	ReasonMalformed Reason = "malformed"
	ReasonUnknown   Reason = "unknown"
	ReasonRevoked   Reason = "revoked"
	ReasonRotated   Reason = "rotated"
	ReasonExpired   Reason = "expired"
)

// RefusedError is a refusal with what logs may hold of it. It matches ErrRefused.
type RefusedError struct {
	Reason      Reason
	Prefix      string // public part of what was sent; empty if missing or malformed
	KeyID       string // empty unless the key exists
	WorkspaceID string // empty unless the key exists
}

func (e *RefusedError) Error() string { return ErrRefused.Error() + ": " + string(e.Reason) }

// Unwrap makes errors.Is(err, ErrRefused) true.
func (e *RefusedError) Unwrap() error { return ErrRefused }
