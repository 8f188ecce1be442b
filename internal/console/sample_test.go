package console

import (
	"slices"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/console/sample"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// fill makes a workspace with n deliveries and requests.
func (s *bundle) fill(id string, n int) *sample.Workspace {
	s.t.Helper()
	f := sample.Filler{
		Pool: s.pool, Keys: s.keys, Webhooks: s.webhooks, Clock: s.clock.Now,
		Rollups: rollup.NewWriter(s.pool, testkit.Discard()), Events: rollup.NewEvents(s.pool, s.clock.Now, testkit.Discard()),
	}
	w := testkit.Must(f.Fill(s.t.Context(), id, n))(s.t)
	s.exec(`VACUUM (ANALYZE)`) // as autovacuum does after so many rows
	return w
}

// TestSampleHasEveryPage: a page that is added has to be measured as well.
func TestSampleHasEveryPage(t *testing.T) {
	t.Parallel()
	s := setup(t)
	all := s.fill("sample", 200).Addresses()
	if left := s.console.Unvisited(all); len(left) > 0 {
		t.Errorf("sample.Addresses leads to none of %q", left)
	}
	if left := s.console.Unvisited(all[1:4]); !slices.Contains(left, "/keys/{key}") {
		t.Errorf("without the page of a key, missing are %q", left)
	}
}
