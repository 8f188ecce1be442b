package service

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/relay"
	"github.com/ledgerfeed/ledgerfeed/projections"
)

// Pools that are not those of a role alone.
const (
	sharedPool   = "shared"
	verification = "verification"
	listsPool    = "whole lists"
	downloads    = "downloads" // of the console
	treesPool    = "event trees"
)

// share is a pool's part of the connections of a process. Each pool is on its own, so that
// one slow reader, locked row or flood of requests keeps those of another role waiting as
// little as keys and leases.
type share struct {
	pool        string
	role        string // whose it is; empty: of all
	least, most int
}

// shares are those of all pools. The least are what a role needs so that nothing in it
// waits for itself: of the API, one connection beside those for pages; of deliveries, one
// for the lease beside four that may wait for locks; of projecting, one claim beside
// those that change many rows. Of whole lists there are as many as are read at the same
// time. Two of the shared ones are held where there is the API, by
// what follows changes of keys and counts requests.
func shares(lists int) []share {
	return []share{
		{sharedPool, "", 2, 5},
		{sharedPool, RoleAPI, 2, 2},
		{RoleAPI, RoleAPI, 4, 11}, // pages read at the same time; more would only make each slower
		{listsPool, RoleAPI, 1, lists},
		{RoleProject, RoleProject, projections.LeastConnections, projections.Connections},
		{verification, RoleProject, 3, 3},
		{treesPool, RoleProject, eventtree.Connections, eventtree.Connections},
		{RoleDeliver, RoleDeliver, 6, 7},
		{RoleConsole, RoleConsole, 4, 4},
		{downloads, RoleConsole, 1, 2},
		{RoleRelay, RoleRelay, relay.Connections, relay.Connections},
		{RoleIngest, RoleIngest, 6, 6}, // beside those to a producer's database
	}
}

// single is how many connections a process with some roles has that are in no pool: that
// which receives notifications, and that which verification opens for temporary tables.
func single(roles []string) int {
	if slices.Contains(roles, RoleProject) {
		return 2
	}
	return 1
}

// sharesOf are those of some roles, and of so many whole lists at the same time.
func sharesOf(roles []string, lists int) []share {
	return slices.DeleteFunc(shares(lists), func(s share) bool { return s.role != "" && !slices.Contains(roles, s.role) })
}

// Connections is how many connections to the database a process with some roles has at
// most, with the settings' defaults.
func Connections(roles ...string) int { return mostOf(roles, defaultLists) }

// defaultLists is the default of LEDGERFEED_WHOLE_LISTS.
const defaultLists = 4

func mostOf(roles []string, lists int) int {
	n := single(roles)
	for _, s := range sharesOf(roles, lists) {
		n += s.most
	}
	return n
}

// LeastConnections is how many it needs.
func LeastConnections(roles ...string) int {
	n := single(roles)
	for _, s := range sharesOf(roles, defaultLists) {
		n += s.least
	}
	return n
}

// Allowed is how many connections a process with some roles may have. The error names the
// setting that allows too few.
func Allowed(env *cli.Env, roles []string) (int, error) {
	who := "serve --roles " + strings.Join(roles, ",")
	return cli.Connections(env, who, LeastConnections(roles...), mostOf(roles, listsOf(env)))
}

// listsOf is how many whole lists are read at the same time, as the settings have it.
func listsOf(env *cli.Env) int { return cmp.Or(env.Settings.WholeLists, defaultLists) }

// divide gives each pool its part of the connections that a process may have: what it
// needs, and of the rest as much as it could use of all that could be used.
func divide(all int, roles []string, lists int) map[string]int {
	least, most := LeastConnections(roles...), mostOf(roles, lists)
	sizes := map[string]int{}
	var given, wanted int
	for _, s := range sharesOf(roles, lists) {
		sizes[s.pool] += s.least
		if most > least {
			// Each gets the difference of two rounded sums, so that nothing is left over.
			before := given
			wanted += s.most - s.least
			given = wanted * (all - least) / (most - least)
			sizes[s.pool] += given - before
		}
	}
	return sizes
}

// prepareNotifier makes what notifies other processes, and says it where it hears of none.
func prepareNotifier(ctx context.Context, s *Service) (err error) {
	parameters := map[string]string{"application_name": sessionName(s.roles, s.connections.mark, "")}
	s.notifier, err = cli.NewNotifier(s.env, s.database, s.pool, parameters)
	if err != nil {
		return err
	}
	if len(s.notifier.Ways()) == 0 {
		s.env.Logger.WarnContext(ctx, "a pooler passes no notifications on, and LEDGERFEED_LISTEN_DATABASE_URL is not set: changes made by other processes are found by sweeps, after about a second")
	}
	return nil
}
