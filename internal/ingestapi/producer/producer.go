// Package producer has the keys of producers that append over HTTP: making, changing and checking
// them. They have another form than API keys, so that neither kind opens the other's door.
//
// What it promises:
//
//   - A secret leaves the package once, when it is made. The database holds its SHA-256.
//   - A key that was revoked or rotated is refused by every instance within a second.
//   - A key that was just made works at once, on every instance.
//   - Look-ups of invented keys share queries. At most MaxLookUps queries run at a time.
//
// A [Store] changes keys and a [Directory] checks them.
package producer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

const (
	// Lead is what the keys begin with, before the brand.
	Lead     = "producer"
	idPrefix = Lead + "_"
)

// MaxWorkspaces is how many workspaces a key may have.
const MaxWorkspaces = 100

// FormatOf returns the form of the keys of a brand: producer_, and the form of an API key.
func FormatOf(name brand.Brand) access.Format { return access.NewFormat(name).Led(Lead) }

// Key is a producer's key as requests see it. It must not be changed.
type Key struct {
	ID         string // producer_ and a UUIDv7; the same before and after a rotation
	Name       string
	Prefix     string
	Workspaces []string // those of this database; in order
	Types      []string // entry types; nil: all
}

// MayAppendTo reports whether the key is bound to the workspace.
func (k *Key) MayAppendTo(workspaceID string) bool {
	_, found := slices.BinarySearch(k.Workspaces, workspaceID)
	return found
}

// MayAppend reports whether the key may append entries of a type.
func (k *Key) MayAppend(typ string) bool { return k.Types == nil || slices.Contains(k.Types, typ) }

// Record is a key as its managers see it.
type Record struct {
	Key
	CreatedAt time.Time
	RevokedAt time.Time // zero: it was not revoked
}

// Live reports whether the key works.
func (r *Record) Live() bool { return r.RevokedAt.IsZero() }

// InvalidError reports invalid input. Its text is for the user.
type InvalidError struct {
	Field   string // "workspace", "name", "types" or "overlap"
	Problem string
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Problem }

// UnknownError means that there is no such key.
type UnknownError struct{ ID string }

// Error repeats nothing but an id: what was given in its place may be a key with its secret.
func (e *UnknownError) Error() string {
	if len(e.ID) != len(idPrefix)+36 || !strings.HasPrefix(e.ID, idPrefix) {
		return "there is no such producer: want its id, which ledgerfeed producer list shows beside the prefix"
	}
	return fmt.Sprintf("there is no producer %q", e.ID)
}

// RevokedError means that a key can no longer be changed.
type RevokedError struct{ ID string }

func (e *RevokedError) Error() string {
	return fmt.Sprintf("the key of the producer %q is revoked; make a new one", e.ID)
}
