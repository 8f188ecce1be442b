package scenario

import (
	"strings"
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

func TestNewRefusesNonsense(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Config)
		want   []string
	}{
		"no workspace":       {func(c *Config) { c.WorkspaceID = "" }, []string{"workspace id"}},
		"workspace form":     {func(c *Config) { c.WorkspaceID = "a b" }, []string{"workspace id"}},
		"workspace too long": {func(c *Config) { c.WorkspaceID = strings.Repeat("a", 65) }, []string{"workspace id"}},
		"no span":            {func(c *Config) { c.End = c.Start }, []string{"is not a millisecond after"}},
		"span reversed":      {func(c *Config) { c.Start, c.End = c.End, c.Start }, []string{"is not a millisecond after"}},
		"zero times":         {func(c *Config) { c.Start, c.End = time.Time{}, time.Time{} }, []string{"years 1970"}},
		"far future":         {func(c *Config) { c.End = c.End.AddDate(9000, 0, 0) }, []string{"years 1970"}},
		"negative clients":   {func(c *Config) { c.Clients = -1 }, []string{"clients -1"}},
		"many contractors":   {func(c *Config) { c.Contractors = maxParties + 1 }, []string{"contractors 10001"}},
		"negative entries":   {func(c *Config) { c.Entries = -1 }, []string{"entries -1"}},
		"all at once": {
			func(c *Config) { *c = Config{Entries: -1, Clients: -2} },
			[]string{"workspace id", "span", "entries -1", "clients -2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := testConfig(1)
			tc.change(&cfg)
			_, err := New(cfg)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not tell of %q", err, want)
				}
			}
		})
	}
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
