package service

import (
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
)

// TestConnectionsAreDivided: whatever a process may have, its pools and single connections
// are no more together and leave nothing over, and no pool has less than it needs or more
// than it can use.
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
			sizes := divide(all, roles, lists)
			least, most := map[string]int{}, map[string]int{}
			for _, s := range sharesOf(roles, lists) {
				least[s.pool] += s.least
				most[s.pool] += s.most
			}
			sum := single(roles)
			for pool, n := range sizes {
				if sum += n; n < least[pool] || n > most[pool] {
					t.Errorf("%v, %d: %s has %d, want %d to %d", roles, all, pool, n, least[pool], most[pool])
				}
			}
			if sum != all || len(sizes) != len(most) {
				t.Errorf("%v: of %d connections, %d are given: %v", roles, all, sum, sizes)
			}
		}
	}
}

// TestADownloadLeavesOthersAPlace: by default one workspace's download in the console takes no
// other's place.
func TestADownloadLeavesOthersAPlace(t *testing.T) {
	t.Parallel()
	for _, roles := range [][]string{Roles(), {RoleConsole}} {
		if n := divide(mostOf(roles, defaultLists), roles, defaultLists)[downloads]; n < 2 {
			t.Errorf("%v: %d places for downloads, one for each workspace", roles, n)
		}
	}
}

// TestTooFewConnections: the error names what allows too few, and how many are needed.
func TestTooFewConnections(t *testing.T) {
	t.Parallel()
	const least = "31"
	for _, test := range []struct {
		set     func(*cli.Env)
		want    string // of the error
		allowed int
	}{
		{func(*cli.Env) {}, "", 48},
		{func(e *cli.Env) { e.Settings.Connections = 32 }, "", 32},
		{func(e *cli.Env) { e.Settings.Connections = 100 }, "", 48},
		{func(e *cli.Env) {
			e.Settings.Connections, e.Settings.DatabaseURL = 40, "postgres://db/x?pool_max_conns=31"
		}, "", 31},
		{func(e *cli.Env) { e.Settings.Connections = 26 }, "LEDGERFEED_CONNECTIONS is 26: serve --roles api,project,deliver,console needs at least " + least, 0},
		{func(e *cli.Env) { e.Settings.DatabaseURL = "host=db pool_max_conns=9" }, "pool_max_conns in DATABASE_URL is 9: serve --roles api,project,deliver,console needs at least " + least, 0},
		{func(e *cli.Env) { e.Settings.DatabaseURL = "host=db pool_max_conns=2" }, `pool_max_conns in DATABASE_URL is "2": want a number of connections, 4 or more, such as 40`, 0},
	} {
		env := &cli.Env{}
		test.set(env)
		n, err := Allowed(env, Roles())
		if n != test.allowed || (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %d, %v; want %d, %q", env.Settings, n, err, test.allowed, test.want)
		}
	}
}
