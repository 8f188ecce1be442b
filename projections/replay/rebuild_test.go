package replay_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/projections/projectionstest"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// rebuild rebuilds and returns what it did, by workspace.
func (b *bench) rebuild(r *replay.Replayer, q replay.RebuildRequest) map[string]replay.Rebuilt {
	b.t.Helper()
	done := map[string]replay.Rebuilt{}
	if err := r.Rebuild(b.t.Context(), q, func(d replay.Rebuilt) { done[d.WorkspaceID] = d }); err != nil {
		b.t.Fatal(err)
	}
	return done
}

// versions is the transaction that wrote each stored row.
func (b *bench) versions() map[string]string {
	b.t.Helper()
	list := map[string]string{}
	for _, table := range readTables() {
		rows, err := b.Pool.Query(b.t.Context(), `SELECT t.workspace_id || ' ' || (to_json(t) ->> 'id') || t::text, xmin::text FROM `+table+` t`)
		if err != nil {
			b.t.Fatal(err)
		}
		var name, xmin *string
		if _, err := pgx.ForEachRow(rows, []any{&name, &xmin}, func() error {
			if name != nil {
				list[table+" "+*name] = *xmin
			}
			return nil
		}); err != nil {
			b.t.Fatal(err)
		}
	}
	return list
}

// A rebuild repairs what is derived from the log, refuses a workspace whose log
// is wrong, and does not write correct rows.
func TestRebuildRepairsDamage(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, memory int64) {
		for _, d := range damages() {
			t.Run(d.name, func(t *testing.T) {
				t.Parallel()
				b := projected(t).within(memory)
				before := b.versions()
				d.do(b)
				damaged := b.versions()
				r := b.replayer()
				done := b.rebuild(r, replay.RebuildRequest{})
				after := b.versions()
				if other := done["ws-2"]; other.Refused != "" {
					t.Errorf("ws-2 was refused: %s", other.Refused)
				}
				if d.log {
					if done["ws-1"].Refused == "" {
						t.Errorf("ws-1 was rebuilt from a log that is wrong: %+v", done["ws-1"])
					}
					if !maps.Equal(damaged, after) {
						t.Error("rows were written although the log is wrong")
					}
					return
				}
				for row, xmin := range before {
					if damaged[row] == xmin && after[row] != xmin && !strings.Contains(d.name, "checkpoint") {
						t.Errorf("written although it was right: %s", row)
					}
				}
				if lines, _ := b.verify(r, replay.VerifyRequest{}); len(lines) != 0 {
					t.Errorf("after the rebuild: %s", strings.Join(lines, "\n"))
				}
				b.Project(1000) // a checkpoint that was moved back
				b.EqualsFold()
				if again := b.rebuild(r, replay.RebuildRequest{}); again["ws-1"].Written+again["ws-1"].Deleted+again["ws-2"].Written+again["ws-2"].Deleted > 0 {
					t.Errorf("a second rebuild still changed something: %+v", again)
				}
			})
		}
	})
}

// Rebuilt from nothing, the tables are those that were projected.
func TestRebuildFromEmptyTables(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, memory int64) {
		b := projected(t).within(memory)
		for _, table := range readTables() {
			if _, err := b.Pool.Exec(t.Context(), "DELETE FROM "+table); err != nil {
				t.Fatal(err)
			}
		}
		done := b.rebuild(b.replayer(), replay.RebuildRequest{})
		b.EqualsFold()
		for w, d := range done {
			if d.Written != d.Rows || d.Rows == 0 {
				t.Errorf("%s: wrote %d of %d rows", w, d.Written, d.Rows)
			}
		}
	})
}

func TestRebuildOfSomeResources(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, memory int64) {
		b := projected(t).within(memory)
		for _, table := range []string{"invoice", "closed_period", "client", "client_credit", "credit_move", "payment"} {
			if _, err := b.Pool.Exec(t.Context(), "DELETE FROM "+table); err != nil {
				t.Fatal(err)
			}
		}
		b.damage(`UPDATE log_checkpoint SET rules = 0`)
		r := b.replayer()
		b.rebuild(r, replay.RebuildRequest{WorkspaceID: "ws-1", Resources: []string{"invoices", "credit"}})
		lines, done := b.verify(r, replay.VerifyRequest{WorkspaceID: "ws-1"})
		for _, l := range lines {
			if !strings.HasPrefix(l, "ws-1: clients ") && !strings.HasPrefix(l, "ws-1: payments ") {
				t.Errorf("not rebuilt: %s", l)
			}
		}
		if len(lines) == 0 || done[0].Rules != 0 {
			t.Errorf("more was rebuilt than was asked: %v, %+v", lines, done)
		}
		if n := b.text(`SELECT count(*)::text FROM invoice WHERE workspace_id = 'ws-2'`); n != "0" {
			t.Errorf("another workspace was rebuilt: %s invoices", n)
		}
		var unknown *replay.UnknownResourceError
		if err := r.Rebuild(t.Context(), replay.RebuildRequest{Resources: []string{"invoice"}}, nil); !errors.As(err, &unknown) {
			t.Errorf("an unknown resource: %v", err)
		}
		var nobody *domain.UnknownWorkspaceError
		if err := r.Rebuild(t.Context(), replay.RebuildRequest{WorkspaceID: "nobody"}, nil); !errors.As(err, &nobody) {
			t.Errorf("an unknown workspace: %v", err)
		}
	})
}

// Rows that the projector derives from damaged rows during the comparison are
// repaired with them.
func TestRebuildRepairsWhatFollowedFromDamage(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, memory int64) {
		b := projected(t).within(memory)
		more := projectionstest.Generate(t, "ws-1", 1, 1400)[900:]
		b.damage(`UPDATE client SET base = regexp_replace(base, '"name":"[^"]*"', '"name":"Somebody else"') WHERE workspace_id = 'ws-1'`)
		b.damage(`UPDATE invoice SET base = regexp_replace(base, '"credit_applied":"[^"]*"', '"credit_applied":"5.00"') WHERE workspace_id = 'ws-1'`)
		steps := 0
		r := b.replayer(func(c *replay.Config) {
			c.Limit = func(context.Context, int) error { // called after every page of entries and of rows
				if steps++; steps > 1 && len(more) > 0 {
					n := min(50, len(more))
					b.Append(more[:n])
					b.Project(10)
					more = more[n:]
				}
				return nil
			}
		})
		b.rebuild(r, replay.RebuildRequest{WorkspaceID: "ws-1"})
		if len(more) > 300 {
			t.Fatalf("%d entries were not projected during the comparison", len(more))
		}
		b.Project(1000)
		b.EqualsFold()
	})
}

// Keys of two columns are compared in the order of both, whatever the ids are.
func TestVerifyComparesPairsInOrder(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, memory int64) {
		b := newBench(t).within(memory)
		var drafts []domain.Draft
		for i, client := range []string{"a", "a-b", "a-b_", "A", "_", "-"} {
			for j := range 400 {
				line := fmt.Sprintf(`{"workspace_id":"w","type":"credit.topped_up","data":{"credit_id":"c%d-%d","client_id":%q,"amount":"1.00","currency":"EUR"}}`, j%7, j, client)
				d, err := domain.DecodeDraft([]byte(line))
				if err != nil {
					t.Fatal(i, err)
				}
				drafts = append(drafts, d)
			}
		}
		b.Append(drafts)
		b.Project(1000)
		r := b.replayer()
		if lines, _ := b.verify(r, replay.VerifyRequest{}); len(lines) != 0 {
			t.Fatalf("false differences: %s", strings.Join(lines[:min(5, len(lines))], "\n"))
		}
		b.damage(`DELETE FROM credit_move WHERE id LIKE 'c3-%'`)
		lines, _ := b.verify(r, replay.VerifyRequest{})
		if want := 6 * 57; len(lines) != want {
			t.Errorf("%d differences, want %d", len(lines), want)
		}
		if !slices.IsSorted(lines) || len(slices.Compact(slices.Clone(lines))) != len(lines) {
			t.Error("a difference was reported twice")
		}
		b.rebuild(r, replay.RebuildRequest{Resources: []string{"credit"}})
		b.EqualsFold()
	})
}

// A projector cannot go on when a row is damaged, or was written by a version
// with another form of answers. After a rebuild it can.
func TestRebuildLetsAFailingWorkspaceGoOn(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, memory int64) {
		b := projected(t).within(memory)
		b.damage(`UPDATE client SET base = replace(base, '"billing_status"', '"billing_standing"')`)
		runner, err := projections.NewRunner(projections.RunnerConfig{Pool: b.Pool, Notifier: b.Notifier, Clock: time.Now, Logger: projectionstest.NoLog(), Sweep: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- runner.Run(ctx) }()
		b.Append(projectionstest.Generate(t, "ws-1", 1, 1100)[900:])
		var status *projections.Status
		b.until(func() bool {
			var err error
			if status, err = projections.ReadStatus(t.Context(), b.Pool, "ws-1"); err != nil {
				t.Fatal(err)
			}
			return status.Workspaces[0].Failures >= 3
		}, func() string { return fmt.Sprintf("%+v", status) })
		if failure := *status.Workspaces[0].Error; !strings.Contains(failure, "ledgerfeed rebuild") {
			t.Errorf("the error is %s", failure)
		}
		b.rebuild(b.replayer(), replay.RebuildRequest{})
		b.AwaitProjected()
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		b.EqualsFold()
	})
}
