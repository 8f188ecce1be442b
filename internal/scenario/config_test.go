package scenario

import (
	"testing"
	"time"
)

// The span of most tests: two years.
var (
	testStart = time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)
	testEnd   = testStart.AddDate(2, 0, 0)
)

func testConfig(seed uint64) Config {
	return Config{WorkspaceID: "agency", Seed: seed, Start: testStart, End: testEnd}
}

func TestDefaultsFollowEntries(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ entries, clients, contractors int }{
		{0, 12, 8}, {10, 1, 1}, {200, 5, 3}, {10_000, 12, 8}, {1_000_000, 12, 8},
	} {
		got := Config{Entries: tc.entries}.withDefaults()
		if got.Clients != tc.clients || got.Contractors != tc.contractors {
			t.Errorf("%d entries: %d clients and %d contractors, want %d and %d",
				tc.entries, got.Clients, got.Contractors, tc.clients, tc.contractors)
		}
	}
	if got := (Config{Clients: 3, Contractors: 2, Entries: 10}).withDefaults(); got.Clients != 3 || got.Contractors != 2 {
		t.Errorf("given sizes became %d and %d", got.Clients, got.Contractors)
	}
}
