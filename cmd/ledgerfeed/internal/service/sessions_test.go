package service

import (
	"slices"
	"strings"
	"testing"
)

// TestSessionNamesAreWhole: PostgreSQL cuts names of sessions off after 63 bytes; with all
// roles, the mark is still there, and roles and mark are read back as they were.
func TestSessionNamesAreWhole(t *testing.T) {
	t.Parallel()
	mark := newMark()
	if name := sessionName(append(Roles(), RoleIngestAPI), mark, ""); len(name) > longestName || !strings.Contains(name, " deliver console ingest-api ") {
		t.Errorf("%s has %d bytes, or cuts names that fit", name, len(name))
	}
	name := sessionName(AllRoles(), mark, "")
	if len(name) > longestName {
		t.Errorf("%s has %d bytes", name, len(name))
	}
	roles, read := rolesAndMark(strings.Fields(strings.TrimPrefix(name, sessionPrefix)))
	if !slices.Equal(roles, AllRoles()) || read != mark || len(mark) != 4 || newMark()+newMark() == mark+mark {
		t.Errorf("%v, %q of %s", roles, read, name)
	}
}
