package replay_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// poolWith opens a pool whose connections have settings.
func (b *bench) poolWith(settings map[string]string) testkit.DB {
	b.t.Helper()
	pool, err := pg.Open(b.t.Context(), b.URL, pg.Options{MaxConns: 6, Settings: settings})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(pool.Close)
	return pool
}

// A rebuild that is stopped in the middle of writing, with its transaction open,
// blocks no reader and no append: they do not wait for its locks, however long it
// takes, and readers see the old rows. The benchmark measures their delay in
// milliseconds.
func TestRebuildBlocksNobody(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, memory int64) {
		b := projected(t).within(memory)
		b.damage(`UPDATE invoice SET base = regexp_replace(base, '"plan_name":(null|"[^"]*")', '"plan_name":"DAMAGED"') WHERE workspace_id = 'ws-1'`)
		b.damage(`UPDATE contractor SET position = position + 1 WHERE workspace_id = 'ws-1'`)
		// Contractors are written after invoices, so a locked contractor stops the
		// rebuild between the two.
		holder, err := b.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer pg.Rollback(t.Context(), holder)
		if _, err := holder.Exec(t.Context(), `SELECT FROM contractor WHERE workspace_id = 'ws-1' FOR UPDATE`); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		r := b.replayer()
		go func() {
			ended <- r.Rebuild(t.Context(), replay.RebuildRequest{WorkspaceID: "ws-1"}, func(replay.Rebuilt) {})
		}()
		b.until(func() bool { return testkit.Must(testkit.LocksAwaited(t, b.Pool))(t) == 1 }, func() string { return "not one session waits for a lock" })

		impatient := b.poolWith(map[string]string{"lock_timeout": "1ms"})
		for _, table := range []string{"invoice", "charge", "time_entry", "payment", "client", "contractor", "client_credit", "credit_move", "closed_period", "anomaly", "log_checkpoint"} {
			if _, err := impatient.Exec(t.Context(), `SELECT * FROM `+table+` WHERE workspace_id = 'ws-1'`); err != nil {
				t.Errorf("a reader of %s waits: %v", table, err)
			}
		}
		const repaired = `SELECT count(*)::text FROM invoice WHERE workspace_id = 'ws-1' AND base NOT LIKE '%DAMAGED%'`
		if n := b.text(repaired); n != "0" {
			t.Errorf("readers see %s new rows before the others", n)
		}
		log, err := eventlog.New(eventlog.Config{Pool: impatient, Clock: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Append(t.Context(), draft(t, `{"workspace_id":"ws-1","type":"client.recorded","data":{"client_id":"late","name":"L"}}`)); err != nil {
			t.Errorf("an append waits: %v", err)
		}

		pg.Rollback(t.Context(), holder)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if all := b.text(`SELECT count(*)::text FROM invoice WHERE workspace_id = 'ws-1'`); b.text(repaired) != all {
			t.Errorf("%s of %s invoices are repaired", b.text(repaired), all)
		}
		b.Project(1000)
		b.EqualsFold()
	})
}

// Between two pages no transaction is open on any connection of a replay, so the
// longest snapshot is that of a page.
func TestReplayHoldsNoSnapshot(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, memory int64) {
		b := projected(t).within(memory)
		b.damage(`UPDATE payment SET position = position + 1`)
		settings := replay.PoolSettings()
		settings["application_name"] = "replaying"
		pages, seen := 0, map[string]int{} // seen counts the pages after which a transaction is there
		r := b.replayer(func(c *replay.Config) {
			c.Pool, c.Workers = b.poolWith(settings), 1
			c.Limit = func(ctx context.Context, _ int) error {
				pages++
				rows, err := b.Pool.Query(ctx, `
				SELECT concat_ws(' ', pid, xact_start), state LIKE 'idle in transaction%' FROM pg_stat_activity
				 WHERE datname = current_database() AND application_name = 'replaying' AND xact_start IS NOT NULL`)
				if err != nil {
					return err
				}
				var transaction string
				var idle bool
				_, err = pgx.ForEachRow(rows, []any{&transaction, &idle}, func() error {
					// The next page or two are read meanwhile.
					if seen[transaction]++; idle || seen[transaction] > 3 {
						t.Errorf("after page %d, transaction %s holds a snapshot; idle: %t", pages, transaction, idle)
					}
					return nil
				})
				return err
			}
		})
		if lines, _ := b.verify(r, replay.VerifyRequest{}); len(lines) == 0 {
			t.Error("no differences")
		}
		b.rebuild(r, replay.RebuildRequest{})
		if pages < 40 {
			t.Errorf("looked after %d pages only", pages)
		}
	})
}

// The progress counts the workspaces that do not fit into the memory. When not
// even a fold into shadow tables fits, they are folded one by one.
func TestLargeWorkspacesAreCounted(t *testing.T) {
	t.Parallel()
	b := projected(t)
	var (
		progress replay.Progress
		turns    []string // workspaces in the order of their entries; unguarded, because only one is folded at a time
		appear   = func(s *domain.State, e *domain.Entry) {
			if len(turns) == 0 || turns[len(turns)-1] != e.WorkspaceID {
				turns = append(turns, e.WorkspaceID)
			}
			s.Apply(e)
		}
	)
	r := b.replayer(func(c *replay.Config) {
		c.Memory, c.Progress, c.Rules = 1, &progress, projections.Rules{Version: projections.RulesVersion, Apply: appear}
	})
	if lines, _ := b.verify(r, replay.VerifyRequest{}); len(lines) != 0 {
		t.Errorf("differences: %v", lines)
	}
	if len(turns) != 2 || progress.OverMemory.Load() != 2 {
		t.Errorf("the turns were %v; %d were counted as too large", turns, progress.OverMemory.Load())
	}
}
