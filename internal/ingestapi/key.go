package ingestapi

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

const (
	// KeyLead is what the keys begin with, before the brand.
	KeyLead  = "producer"
	idPrefix = KeyLead + "_"
)

// MaxKeyWorkspaces is how many workspaces a key may have.
const MaxKeyWorkspaces = 100

// KeyFormat returns the form of the keys of a brand: producer_, and the form of an API key.
func KeyFormat(name brand.Brand) access.Format { return access.NewFormat(name).Led(KeyLead) }

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

// KeyRecord is a key as its managers see it.
type KeyRecord struct {
	Key
	CreatedAt time.Time
	RevokedAt time.Time // zero: it was not revoked
}

// Live reports whether the key works.
func (r *KeyRecord) Live() bool { return r.RevokedAt.IsZero() }

// InvalidKeyError reports invalid input. Its text is for the user.
type InvalidKeyError struct {
	Field   string // "workspace", "name", "types" or "overlap"
	Problem string
}

func (e *InvalidKeyError) Error() string { return e.Field + ": " + e.Problem }

// UnknownKeyError means that there is no such key.
type UnknownKeyError struct{ ID string }

// Error repeats nothing but an id: what was given in its place may be a key with its secret.
func (e *UnknownKeyError) Error() string {
	if len(e.ID) != len(idPrefix)+36 || !strings.HasPrefix(e.ID, idPrefix) {
		return "there is no such producer: want its id, which ledgerfeed producer list shows beside the prefix"
	}
	return fmt.Sprintf("there is no producer %q", e.ID)
}

// RevokedKeyError means that a key can no longer be changed.
type RevokedKeyError struct{ ID string }

func (e *RevokedKeyError) Error() string {
	return fmt.Sprintf("the key of the producer %q is revoked; make a new one", e.ID)
}
