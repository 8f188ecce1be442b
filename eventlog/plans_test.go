//go:build full

package eventlog_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/entrance"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestAppendsLeaveASessionSmall: whatever the number of their entries, the node of a cluster
// keeps no further plan at each append, which some releases of Citus do.
func TestAppendsLeaveASessionSmall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const workspaceID = "acme"
	nodes := testkit.Entrances(t, b.pool, pg.Options{MaxConns: 2})
	log := newLog(t, eventlog.Config{Pool: b.pool, Nodes: nodes, Clock: b.clock.Now})
	if _, err := log.Append(t.Context(), client(t, workspaceID, "first", "n")); err != nil {
		t.Fatal(err)
	}
	pool := entrance.PoolOf(t.Context(), nodes, b.pool, workspaceID)
	// A transaction is in one session, also behind a pooler.
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		appends := func(name string, n int) error {
			for i := range n {
				for _, entries := range []int{1, 3, 10} {
					_, err := tx.Exec(t.Context(), `
						SELECT outcomes FROM log_append($1, $2, NULL, false, ARRAY(SELECT $3 || i FROM generate_series(1, $4::integer) i),
						       array_fill('client.recorded'::text, ARRAY[$4::integer]), NULL, array_fill('{"client_id":"c","name":"n"}'::text, ARRAY[$4::integer]), NULL)`,
						workspaceID, b.clock.Now(), fmt.Sprintf("%s%d_%d_", name, i, entries), entries)
					if err != nil {
						return err
					}
				}
			}
			return nil
		}
		if err := appends("warm", 20); err != nil {
			return err
		}
		before, err := plansOf(t.Context(), tx)
		if err != nil {
			return err
		}
		if err := appends("more", 100); err != nil {
			return err
		}
		after, err := plansOf(t.Context(), tx)
		if err == nil && after > before+200<<10 {
			t.Errorf("300 appends took %d kB of plans", (after-before)>>10)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// plansOf is how much memory the plans of a session take, in bytes.
func plansOf(ctx context.Context, tx pgx.Tx) (bytes int64, err error) {
	err = tx.QueryRow(ctx, `SELECT coalesce(sum(total_bytes), 0)::bigint FROM pg_backend_memory_contexts WHERE name LIKE 'CachedPlan%'`).Scan(&bytes)
	return bytes, err
}
