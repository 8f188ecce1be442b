//go:build full && unix

package entrance_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/entrance"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/twonodes"
)

// entered is a cluster with what its entrances log.
type entered struct {
	*twonodes.Entered
	log testkit.Buffer
}

func enter(t *testing.T) *entered {
	t.Helper()
	e := &entered{}
	e.Entered = twonodes.Enter(t, e.log.Logger(), pg.Options{MaxConns: 4, Settings: map[string]string{"plan_cache_mode": "force_generic_plan"}})
	return e
}

// at is which node the statements of some workspaces go to.
func (e *entered) at(t *testing.T, workspaces ...string) (node string, err error) {
	t.Helper()
	var group int
	pool := entrance.PoolOf(t.Context(), e.Pools, e.CoordinatorPool, workspaces...)
	if err := pool.QueryRow(t.Context(), `SELECT groupid FROM pg_dist_local_group`).Scan(&group); err != nil {
		return "", err // such as that of a connection to a server that was stopped
	}
	return []string{"coordinator", "worker"}[group], nil
}

// goesTo looks until the statements of a workspace go to a node: one that is slow to answer on
// a busy machine is asked again.
func (e *entered) goesTo(t *testing.T, want, workspace string) {
	t.Helper()
	testkit.Eventually(t, func() error {
		e.Set.Look(t.Context())
		if got, err := e.at(t, workspace); got != want {
			return fmt.Errorf("statements of %s go to the %s, not to the %s: %w", workspace, got, want, err)
		}
		return nil
	})
}

// TestStatementsGoToTheirNode: by the shard of their workspace, also after it was moved; those
// of several workspaces go to the coordinator unless all are on one node.
func TestStatementsGoToTheirNode(t *testing.T) {
	t.Parallel()
	e := enter(t)
	e.goesTo(t, "worker", "beta")
	for want, workspaces := range map[string][][]string{"coordinator": {{"acme"}, {"beta", "acme"}, {}}, "worker": {{"beta"}, {"beta", "zeta"}}} {
		for _, w := range workspaces {
			if got, err := e.at(t, w...); got != want {
				t.Errorf("statements of %q go to the %s, not to the %s: %v", w, got, want, err)
			}
		}
	}
	e.Move(true)
	e.goesTo(t, "coordinator", "beta")
}

// TestANodeThatDoesNotAnswer: what would go to it goes to the coordinator, until it is back.
// That is logged once.
func TestANodeThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	e := enter(t)
	e.goesTo(t, "worker", "beta")
	before := strings.Count(e.log.String(), "does not answer")
	e.Worker.Stop()
	e.goesTo(t, "coordinator", "beta")
	for range 3 {
		e.Set.Look(t.Context())
	}
	if n := strings.Count(e.log.String(), "does not answer") - before; n != 1 {
		t.Errorf("logged %d times:\n%s", n, e.log.String())
	}
	e.Worker.Begin()
	e.goesTo(t, "worker", "beta")
}

// TestWithoutACoordinator: what is known of the nodes stays in use while the coordinator does
// not answer, and a new workspace fails there.
func TestWithoutACoordinator(t *testing.T) {
	t.Parallel()
	e := enter(t)
	e.goesTo(t, "worker", "beta")
	e.Coordinator.Stop()
	e.Set.Look(t.Context())
	if got, err := e.at(t, "beta"); got != "worker" {
		t.Errorf("without a coordinator statements go to the %s: %v", got, err)
	}
	if pool := entrance.PoolOf(t.Context(), e.Pools, e.CoordinatorPool, "gamma"); pool != e.CoordinatorPool {
		t.Error("a workspace whose node is not known does not go to the coordinator")
	}
}

// TestOneServer: without a cluster, or with one host, there are no entrances.
func TestOneServer(t *testing.T) {
	t.Parallel()
	e := enter(t)
	set, err := entrance.New(t.Context(), entrance.Config{URL: e.At(e.Coordinator), Coordinator: e.CoordinatorPool, Logger: testkit.Discard()})
	if err != nil || set != nil {
		t.Errorf("of one host: %v, %v", set, err)
	}
	pools, err := set.Open(t.Context(), pg.Options{})
	if err != nil || pools != nil || entrance.PoolOf(t.Context(), pools, e.CoordinatorPool, "beta") != e.CoordinatorPool {
		t.Errorf("pools of no set: %v, %v", pools, err)
	}
	e.Coordinator.Execute("ledgerfeed", "DELETE FROM pg_extension WHERE extname = 'citus'")
	set, err = entrance.New(t.Context(), entrance.Config{URL: e.URL(), Coordinator: e.CoordinatorPool, Logger: testkit.Discard()})
	if err != nil || set != nil {
		t.Errorf("of one PostgreSQL: %v, %v", set, err)
	}
}
