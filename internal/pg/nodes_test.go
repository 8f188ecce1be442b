//go:build full

package pg_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// twoNodes describes a cluster to one PostgreSQL, with a workspace a1, a2 and so on on the node
// 1, and b1, b2 on the node 2.
func twoNodes(t *testing.T) *pg.Nodes {
	t.Helper()
	pool := testkit.Pool(t)
	testkit.AsOwner(t, pool, `
		CREATE FUNCTION get_shard_id_for_distribution_column(t text, w text) RETURNS bigint LANGUAGE sql AS 'SELECT ascii(w)::bigint';
		CREATE TABLE pg_dist_placement (shardid bigint, groupid integer);
		INSERT INTO pg_dist_placement VALUES (ascii('a'), 1), (ascii('b'), 2);
		SELECT workspace_create(id, id, now()) FROM unnest('{a1,a2,b1,b2}'::text[]) AS id`)
	return pg.NodesWithoutCitus(pool)
}

// calls notes for which workspaces something was done, and fails for those of the node 2.
type calls struct {
	mu   sync.Mutex
	done map[string]bool
	err  error // of the node 2
}

func (c *calls) do(_ context.Context, workspaces []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = map[string]bool{}
	}
	c.done["called"] = c.done["called"] || workspaces == nil
	for _, w := range workspaces {
		if c.err == nil || !strings.HasPrefix(w, "b") {
			c.done[w] = true
		}
	}
	if c.err != nil && (workspaces == nil || slices.ContainsFunc(workspaces, func(w string) bool { return strings.HasPrefix(w, "b") })) {
		return c.err
	}
	return nil
}

func away() error {
	return &pgconn.PgError{Code: "08006", Message: "connection to the remote node failed"}
}

// TestANodeThatIsAwayIsAskedLater: what is done for workspaces of several nodes fails for those
// of the node that is away alone, which is not asked again at once.
func TestANodeThatIsAwayIsAskedLater(t *testing.T) {
	t.Parallel()
	nodes := twoNodes(t)
	c := &calls{err: away()}
	for turn := range 2 {
		failures, err := nodes.Each(t.Context(), []string{"a1", "b1", "a2"}, c.do)
		if err != nil || len(failures) != 1 || !slices.Equal(failures[0].WorkspaceIDs, []string{"b1"}) || !pg.NodeAway(failures[0].Err) {
			t.Fatalf("failures %v, %v", failures, err)
		}
		if _, skipped := errors.AsType[*pg.NodeAwayError](failures[0].Err); skipped != (turn == 1) {
			t.Errorf("turn %d: the node is left out: %v", turn, skipped)
		}
	}
	if got := slices.Sorted(maps.Keys(c.done)); !slices.Equal(got, []string{"a1", "a2", "called"}) {
		t.Errorf("done for %v", got)
	}
	c.err = nil
	testkit.Eventually(t, func() error { // it is asked again after a second
		failures, err := nodes.Each(t.Context(), []string{"b1"}, c.do)
		for i := range failures {
			err = errors.Join(err, failures[i].Err)
		}
		return err
	})
}

// TestOtherErrorsOfANode: a node that answers with an error is asked again at once.
func TestOtherErrorsOfANode(t *testing.T) {
	t.Parallel()
	nodes := twoNodes(t)
	c := &calls{err: &pgconn.PgError{Code: "55P03"}}
	for range 2 {
		failures, err := nodes.Each(t.Context(), []string{"a1", "b1"}, c.do)
		if err != nil || len(failures) != 1 || !pg.Locked(failures[0].Err) {
			t.Fatalf("failures %v, %v", failures, err)
		}
	}
	if err := nodes.Everywhere(t.Context(), c.do); !pg.Locked(err) {
		t.Errorf("everywhere: %v", err)
	}
}

// TestEverywhere: once for all nodes, and node by node while one is away; on one PostgreSQL once.
func TestEverywhere(t *testing.T) {
	t.Parallel()
	nodes := twoNodes(t)
	c := &calls{}
	if err := nodes.Everywhere(t.Context(), c.do); err != nil || len(c.done) != 1 {
		t.Errorf("done for %v, %v", c.done, err)
	}
	c = &calls{err: away()}
	err := nodes.Everywhere(t.Context(), c.do)
	if got := slices.Sorted(maps.Keys(c.done)); !pg.NodeAway(err) || !slices.Equal(got, []string{"a1", "a2", "called"}) {
		t.Errorf("done for %v, %v", got, err)
	}
	c = &calls{}
	if err := (*pg.Nodes)(nil).Everywhere(t.Context(), c.do); err != nil || len(c.done) != 1 {
		t.Errorf("on one PostgreSQL: done for %v, %v", c.done, err)
	}
}

// TestDeleteOnNodes: what is old is deleted, but for rows that another transaction has locked.
func TestDeleteOnNodes(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t)
	nodes := pg.NodesWithoutCitus(pool)
	testkit.AsOwner(t, pool, `
		CREATE TABLE old (workspace_id text, n integer);
		INSERT INTO old SELECT w, n FROM unnest('{a,b}'::text[]) AS w, generate_series(1, 6000) AS n`)
	tx := testkit.Must(pool.Begin(t.Context()))(t)
	defer pg.Rollback(t.Context(), tx)
	testkit.Must(tx.Exec(t.Context(), `SELECT FROM old WHERE workspace_id = 'a' AND n = 7 FOR UPDATE`))(t)
	if err := nodes.Delete(t.Context(), time.Second, "old", "n <= $2", 5500); err != nil {
		t.Fatal(err)
	}
	var left, locked int
	if err := pool.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE n = 7) FROM old`).Scan(&left, &locked); err != nil || left != 1001 || locked != 1 {
		t.Errorf("%d rows are left, %d of them locked: %v", left, locked, err)
	}
}
