//go:build full

package pg_test

import (
	"strconv"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// TestNamedWorkspacesAreBounded: the first workspaces that ask are named, until many others
// have asked.
func TestNamedWorkspacesAreBounded(t *testing.T) {
	t.Parallel()
	const most = 7
	s := pg.NewNamedWorkspaces(most)
	for i := range most {
		if !s.Has(strconv.Itoa(i)) {
			t.Fatalf("workspace %d is not named", i)
		}
	}
	for i := range 50*most - 1 {
		if s.Has("other" + strconv.Itoa(i)) {
			t.Fatalf("other workspace %d is named, too", i)
		}
	}
	if !s.Has("0") {
		t.Error("a workspace of the set is not named any more")
	}
	if !s.Has("other") || !s.Has("1") {
		t.Error("the set did not begin again")
	}
}
