package access

import (
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
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
	switch p {
	case InvoicesRead:
		return 1 << 0
	case TimeEntriesRead:
		return 1 << 1
	case ClientsRead:
		return 1 << 2
	case CreditsRead:
		return 1 << 3
	case ContractorsRead:
		return 1 << 4
	case PaymentsRead:
		return 1 << 5
	case EventsRead:
		return 1 << 6
	case PayRead:
		return 1 << 7
	case MarginRead:
		return 1 << 8
	}
	return 0
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

// OpensNothing tells whether a key with this set reads nothing but /v1/me: pay:read and
// margin:read only add fields to what other permissions open.
func (s Permissions) OpensNothing() bool {
	return s&^PermissionsOf(PayRead, MarginRead) == 0
}

// validate says whether a key may be made with this set: it must not be empty,
// and margin:read needs pay:read (docs/contract/service.md, "Field visibility", 4). The error
// is an *InvalidError for "scopes".
func (s Permissions) validate() error {
	switch {
	case s == 0:
		return &InvalidError{Field: "scopes", Problem: "name at least one permission; allowed are " + allowedList()}
	case s.Has(MarginRead) && !s.Has(PayRead):
		return &InvalidError{Field: "scopes", Problem: "margin:read needs pay:read on the same key"}
	}
	return nil
}

// Has reports whether the set holds p; a permission that does not exist is in
// no set.
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

// storedPermissions reads what the database holds. Unlike ParsePermissions it ignores
// names that it does not know, because a newer version of the program may run beside
// this one and know more.
func storedPermissions(names []string) Permissions {
	var set Permissions
	for _, name := range names {
		set |= Permission(name).bit()
	}
	return set
}

// allowedList is every permission, for error messages.
func allowedList() string {
	return strings.Join(PermissionsOf(AllPermissions()...).Strings(), ", ")
}

// keyCounts counts the requests of keys in the current minute. Only valid keys are
// counted, so there are never more counts than keys in use.
type keyCounts struct {
	seed   maphash.Seed
	shards [32]keyShard
}

type keyShard struct {
	mu     sync.Mutex
	minute int64
	counts map[string]*keyCount // by key id
}

type keyCount struct {
	workspaceID string
	count
}

func newKeyCounts() *keyCounts { return &keyCounts{seed: maphash.MakeSeed()} }

func (k *keyCounts) shard(keyID string) *keyShard {
	return &k.shards[maphash.String(k.seed, keyID)%uint64(len(k.shards))]
}

// at returns the count of a key in a minute and creates it if it does not exist. A
// minute before the shard's counts as the shard's: the clock was set back. The
// caller holds mu.
func (s *keyShard) at(minute int64, workspaceID, keyID string) *keyCount {
	if minute > s.minute || s.counts == nil {
		s.minute, s.counts = minute, map[string]*keyCount{}
	}
	c := s.counts[keyID]
	if c == nil {
		c = &keyCount{workspaceID: workspaceID}
		s.counts[keyID] = c
	}
	return c
}

func (k *keyCounts) take(minute int64, key *Key) (total int64, ok bool) {
	s := k.shard(key.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.at(minute, key.WorkspaceID, key.ID)
	ok = c.take(int64(key.RateLimit))
	return c.total(), ok
}

// total is the count of a key in a minute, without counting.
func (k *keyCounts) total(minute int64, key *Key) int64 {
	s := k.shard(key.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts[key.ID]
	if minute > s.minute || c == nil {
		return 0
	}
	return c.total()
}

// appendPending takes what is pending of every key.
func (k *keyCounts) appendPending(deltas []delta) []delta {
	for i := range k.shards {
		s := &k.shards[i]
		s.mu.Lock()
		for id, c := range s.counts {
			if c.pending > 0 {
				deltas = append(deltas, delta{workspaceID: c.workspaceID, subject: id, minute: s.minute, n: c.takePending()})
			}
		}
		s.mu.Unlock()
	}
	return deltas
}

// update changes the count of a key in a minute. A key that was not seen here gets
// a count if create is true; a count of another minute is left alone.
func (k *keyCounts) update(minute int64, workspaceID, keyID string, create bool, change func(*count)) {
	s := k.shard(keyID)
	s.mu.Lock()
	defer s.mu.Unlock()
	var c *keyCount
	if create {
		c = s.at(minute, workspaceID, keyID)
	} else {
		c = s.counts[keyID]
	}
	if c != nil && s.minute == minute {
		change(&c.count)
	}
}
