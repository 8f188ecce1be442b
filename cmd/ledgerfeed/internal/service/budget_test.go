package service

import (
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
)

// TestConnectionsAreDivided: whatever a process may have, what is kept for its shares leaves
// some for all, each share may have what is kept for it and one more, and what takes minutes
// leaves most of those for others.
func TestConnectionsAreDivided(t *testing.T) {
	t.Parallel()
	for set := 1; set < 1<<len(AllRoles()); set++ {
		var roles []string
		for i, r := range AllRoles() {
			if set&(1<<i) != 0 {
				roles = append(roles, r)
			}
		}
		lists := 1 + set%9
		for all := LeastConnections(roles...); all <= mostOf(roles, lists); all++ {
			shares := divide(all, roles, lists)
			kept := 0
			for _, s := range shares {
				kept += s.Least
			}
			common := all - single - kept
			if common < leastCommon {
				t.Errorf("%v: of %d connections, %d are kept", roles, all, kept)
			}
			for _, s := range sharesOf(roles, lists) {
				got := shares[s.name]
				if s.name == massShare && got.Least == 1 { // where there are enough
					s.least = 1
				}
				if got.Least != s.least || got.Most < 1 || got.Most > max(1, s.want) || got.Most < min(s.want, s.least+1) {
					t.Errorf("%v, %d: %+v", roles, all, got)
				}
				if s.long && got.Most-s.least > max(1, (common+1)*2/5) {
					t.Errorf("%v, %d: %s may have %d of %d common ones for minutes", roles, all, s.name, got.Most, common)
				}
			}
		}
	}
}

// TestADownloadLeavesOthersAPlace: by default one workspace's download in the console takes no
// other's place.
func TestADownloadLeavesOthersAPlace(t *testing.T) {
	t.Parallel()
	for _, roles := range [][]string{Roles(), {RoleConsole}} {
		if n := divide(Connections(roles...), roles, defaultLists)[downloads].Most; n < 2 {
			t.Errorf("%v: %d places for downloads, one for each workspace", roles, n)
		}
	}
}

// TestTooFewConnections: the error names what allows too few, and how many are needed.
func TestTooFewConnections(t *testing.T) {
	t.Parallel()
	const least = "10"
	for _, test := range []struct {
		set     func(*operate.Env)
		want    string // of the error
		allowed int
	}{
		{func(*operate.Env) {}, "", 20},
		{func(e *operate.Env) { e.Settings.Connections = 32 }, "", 32},
		{func(e *operate.Env) { e.Settings.Connections = 100 }, "", 50},
		{func(e *operate.Env) { e.Settings.Connections = 10 }, "", 10},
		{func(e *operate.Env) {
			e.Settings.Connections, e.Settings.DatabaseURL = 40, "postgres://db/x?pool_max_conns=11"
		}, "", 11},
		{func(e *operate.Env) { e.Settings.Connections = 9 }, "LEDGERFEED_CONNECTIONS is 9: serve --roles api,project,deliver,console needs at least " + least, 0},
		{func(e *operate.Env) { e.Settings.DatabaseURL = "host=db pool_max_conns=9" }, "pool_max_conns in DATABASE_URL is 9: serve --roles api,project,deliver,console needs at least " + least, 0},
		{func(e *operate.Env) { e.Settings.DatabaseURL = "host=db pool_max_conns=2" }, `pool_max_conns in DATABASE_URL is "2": want a number of connections, 4 or more, such as 40`, 0},
	} {
		env := &operate.Env{}
		test.set(env)
		n, err := Allowed(env, Roles())
		if n != test.allowed || (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %d, %v; want %d, %q", env.Settings, n, err, test.allowed, test.want)
		}
	}
}
