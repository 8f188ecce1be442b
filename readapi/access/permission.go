package access

import (
	"fmt"
	"slices"
	"strings"
)

// Permission is what a key may do, also called a scope (docs/contract/service.md,
// "Authentication", 6).
type Permission string

// The permissions, in the order of docs/contract/service.md, "Authentication".
const (
	InvoicesRead    Permission = "invoices:read"
	TimeEntriesRead Permission = "time_entries:read"
	ClientsRead     Permission = "clients:read"
	CreditsRead     Permission = "credits:read"
	ContractorsRead Permission = "contractors:read"
	PaymentsRead    Permission = "payments:read"
	EventsRead      Permission = "events:read"
	PayRead         Permission = "pay:read"
	MarginRead      Permission = "margin:read"
)

// AllPermissions lists every permission in the order of docs/contract/service.md,
// "Authentication". The caller may keep and change the slice.
func AllPermissions() []Permission {
	return []Permission{
		InvoicesRead, TimeEntriesRead, ClientsRead, CreditsRead, ContractorsRead,
		PaymentsRead, EventsRead, PayRead, MarginRead,
	}
}

// bit is the permission's bit in a Permissions, 0 for an unknown one.
func (p Permission) bit() Permissions {
	i := slices.Index(AllPermissions(), p)
	if i < 0 {
		return 0
	}
	return 1 << i
}

// Permissions is a set of permissions; the zero value is the empty set. The
// numbers behind it are not stored anywhere and may change between versions.
type Permissions uint16

// PermissionsOf makes a set. It leaves out permissions that do not exist.
func PermissionsOf(ps ...Permission) Permissions {
	var set Permissions
	for _, p := range ps {
		set |= p.bit()
	}
	return set
}

// ParseScopes reads a comma-separated list such as "invoices:read,pay:read", as
// the command line takes it. Spaces around names and repeated names do no harm.
// The error is an *InvalidError for "scopes"; it names every unknown permission
// and the allowed ones, or says what the set lacks (validate).
func ParseScopes(text string) (Permissions, error) {
	if strings.TrimSpace(text) == "" {
		return 0, Permissions(0).validate()
	}
	return ParsePermissions(strings.Split(text, ","))
}

// ParsePermissions is ParseScopes for a list of names, as the checkboxes of a form give
// them.
func ParsePermissions(names []string) (Permissions, error) {
	var set Permissions
	var unknown []string
	for _, name := range names {
		name = strings.TrimSpace(name)
		bit := Permission(name).bit()
		if bit == 0 {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
		set |= bit
	}
	if len(unknown) > 0 {
		what := "unknown permission "
		if len(unknown) > 1 {
			what = "unknown permissions "
		}
		return 0, &InvalidError{Field: "scopes", Problem: what + strings.Join(unknown, ", ") + "; allowed are " + allowedList()}
	}
	if err := set.validate(); err != nil {
		return 0, err
	}
	return set, nil
}

// OpensNothing reports whether a key with this set can read only /v1/me: pay:read and margin:read
// only add fields to what other permissions open.
func (s Permissions) OpensNothing() bool {
	return s&^PermissionsOf(PayRead, MarginRead) == 0
}

// validate checks that a key may have this set: it must not be empty, and margin:read needs
// pay:read (docs/contract/service.md, "Field visibility", 4). The error is an *InvalidError for
// "scopes".
func (s Permissions) validate() error {
	switch {
	case s == 0:
		return &InvalidError{Field: "scopes", Problem: "name at least one permission; allowed are " + allowedList()}
	case s.Has(MarginRead) && !s.Has(PayRead):
		return &InvalidError{Field: "scopes", Problem: "margin:read needs pay:read on the same key"}
	}
	return nil
}

// Has reports whether the set holds p. No set holds an unknown permission.
func (s Permissions) Has(p Permission) bool {
	return s&p.bit() != 0
}

// Strings returns the names in the order of docs/contract/service.md,
// "Authentication", never nil.
func (s Permissions) Strings() []string {
	names := make([]string, 0, len(AllPermissions()))
	for _, p := range AllPermissions() {
		if s.Has(p) {
			names = append(names, string(p))
		}
	}
	return names
}

// String is the form that ParseScopes reads.
func (s Permissions) String() string {
	return strings.Join(s.Strings(), ",")
}

// storedPermissions reads what the database holds. Unlike ParsePermissions, it ignores unknown
// names, because a newer version of the program may run alongside this one and know more.
func storedPermissions(names []string) Permissions {
	var set Permissions
	for _, name := range names {
		set |= Permission(name).bit()
	}
	return set
}

// allowedList lists every permission, for error messages.
func allowedList() string {
	return strings.Join(PermissionsOf(AllPermissions()...).Strings(), ", ")
}
