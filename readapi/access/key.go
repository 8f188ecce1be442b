package access

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits and defaults of keys.
const (
	// MaxLiveKeys is how many keys a workspace may have that are neither revoked
	// nor expired (docs/contract/decisions.md, "Keys").
	MaxLiveKeys = 100
	// DefaultRateLimit is in requests a clock minute (docs/contract/service.md, "Limits").
	DefaultRateLimit = 120
	// MaxRateLimit is the highest limit that can be set, in requests a minute.
	MaxRateLimit = 1_000_000
	// MaxOverlap is how long a rotation may keep the old secret at most.
	MaxOverlap = 24 * time.Hour

	maxNameLength = 100
)

// Key is what a request may do, and for which workspace. Many requests share the Key
// that a Directory returns, so it must not be changed.
type Key struct {
	ID            string // "key_" and a UUIDv7; the same before and after a rotation
	WorkspaceID   string
	WorkspaceName string // at most a second old, if those that change it call BumpRevision
	Name          string
	Prefix        string // public part of the secret in use: brand, underscore, 8 characters
	Permissions   Permissions
	RateLimit     int       // requests a clock minute
	CreatedAt     time.Time // UTC, whole microseconds
	ExpiresAt     time.Time // refused from then on; zero: never

	Move *Move // of the workspace, in keys of a Directory; nil: it was always here
}

// Move is what is known of a workspace that was moved between databases.
type Move struct {
	Away bool   // another database has the workspace
	To   string // the address of the API there; empty: not known
	// CursorKeys are those under which cursors of the workspace were sealed where it came
	// from, 32 bytes each.
	CursorKeys [][]byte
}

// State is whether a key works.
type State string

// The states of a key.
const (
	Live    State = "live"
	Expired State = "expired"
	Revoked State = "revoked"
)

// Record is a key with what its managers see beside it. Its Prefix is that of the
// newest secret.
type Record struct {
	Key
	RevokedAt  time.Time // zero: it was not revoked
	LastUsedAt time.Time // when a request last passed with it, to the minute; zero: never
	Replaced   []ReplacedSecret
}

// ReplacedSecret is an earlier secret of a rotated key, newest first in a Record.
type ReplacedSecret struct {
	Prefix    string
	CreatedAt time.Time
	EndsAt    time.Time // refused from then on
}

// State is whether the key works at now.
func (r *Record) State(now time.Time) State {
	switch {
	case !r.RevokedAt.IsZero():
		return Revoked
	case !r.ExpiresAt.IsZero() && !now.Before(r.ExpiresAt):
		return Expired
	}
	return Live
}

// NewKey is what a new key is made from.
type NewKey struct {
	WorkspaceID string
	Name        string // 1 to 100 characters, without control characters or spaces around
	Permissions Permissions
	ExpiresAt   time.Time // in the future; zero: never
	RateLimit   int       // requests a minute, 1 to MaxRateLimit; 0: DefaultRateLimit
}

// validate returns every mistake at once, each an *InvalidError.
func (n *NewKey) validate(now time.Time) error {
	var errs []error
	errs = append(errs, CheckName(n.Name), n.Permissions.validate())
	if !n.ExpiresAt.IsZero() && !n.ExpiresAt.After(now) {
		errs = append(errs, &InvalidError{Field: "expires", Problem: "must be in the future"})
	}
	errs = append(errs, validateRateLimit(n.RateLimit))
	return errors.Join(errs...)
}

// CheckName checks the name of a key. The error is an *InvalidError.
func CheckName(name string) error {
	if problem := nameProblem(name); problem != "" {
		return &InvalidError{Field: "name", Problem: problem}
	}
	return nil
}

func nameProblem(name string) string {
	switch {
	case name == "":
		return "must not be empty"
	case !utf8.ValidString(name):
		return "must be UTF-8"
	case utf8.RuneCountInString(name) > maxNameLength:
		return fmt.Sprintf("must have at most %d characters", maxNameLength)
	case strings.TrimSpace(name) != name:
		return "must not begin or end with a space"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "must not hold control characters"
	}
	return ""
}

func validateRateLimit(perMinute int) error {
	if perMinute < 1 || perMinute > MaxRateLimit {
		return &InvalidError{Field: "rate-limit", Problem: fmt.Sprintf("must be 1 to %d requests a minute", MaxRateLimit)}
	}
	return nil
}

// InvalidError is a wrong input to this package; its text is for the user.
type InvalidError struct {
	Field   string // "name", "scopes", "expires", "rate-limit" or "overlap"
	Problem string
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Problem }

// UnknownKeyError means that a key does not exist, or not in that workspace.
type UnknownKeyError struct{ KeyID string }

func (e *UnknownKeyError) Error() string { return fmt.Sprintf("there is no key %q", e.KeyID) }

// NotLiveError means that a key can no longer be changed because it is revoked or
// expired.
type NotLiveError struct {
	KeyID string
	State State // Revoked or Expired
}

func (e *NotLiveError) Error() string {
	return fmt.Sprintf("the key %q is %s; make a new one", e.KeyID, e.State)
}

// TooManyKeysError means that a workspace has MaxLiveKeys live keys already.
type TooManyKeysError struct{ WorkspaceID string }

func (e *TooManyKeysError) Error() string {
	return fmt.Sprintf("the workspace %q has %d live keys, which is the most it may have; revoke one first", e.WorkspaceID, MaxLiveKeys)
}
