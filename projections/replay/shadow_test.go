package replay_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/scenario"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/projections/projectionstest"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// readTables are all that a fold makes.
func readTables() []string {
	return []string{
		"invoice", "charge", "time_entry", "payment", "client", "contractor", "client_credit", "credit_move", "closed_period", "anomaly",
		"removed_time_entry", "removed_charge", "removed_billed_charge",
	}
}

// shuffled makes some entries come before those that they refer to.
func shuffled(drafts []domain.Draft, seed uint64) []domain.Draft {
	random := rand.New(rand.NewPCG(seed, 0))
	for part := range slices.Chunk(drafts, 40) {
		random.Shuffle(len(part), func(i, j int) {
			part[i], part[j] = part[j], part[i]
			part[i].CreatedAt, part[j].CreatedAt = part[j].CreatedAt, part[i].CreatedAt // times stay in order
		})
	}
	return drafts
}

// damageAtRandom changes, deletes and adds rows of every table: the same ones
// for the same seed.
func (b *bench) damageAtRandom(seed int) {
	b.t.Helper()
	for _, table := range readTables() {
		pick := fmt.Sprintf("abs(hashtextextended(%s.position::text, %d)) %%", table, seed)
		statements := []string{
			"DELETE FROM " + table + " WHERE " + pick + " 11 = 0",
			"DELETE FROM " + table + " WHERE position BETWEEN 1000 AND 4000 AND " + fmt.Sprint(seed%2) + " = 0",
		}
		switch table {
		case "anomaly":
			statements = append(statements, `INSERT INTO anomaly SELECT workspace_id, position, 'none', 'evt' FROM anomaly WHERE `+pick+" 7 = 1 ON CONFLICT DO NOTHING")
		case "closed_period":
			statements = append(statements, `UPDATE closed_period SET position = position + 1 WHERE `+pick+" 7 = 1")
		default:
			statements = append(statements,
				"UPDATE "+table+" SET base = regexp_replace(base, '[0-9]', '7') WHERE "+pick+" 7 = 1",
				"UPDATE "+table+" SET position = position - 1 WHERE "+pick+" 7 = 2",
				"UPDATE "+table+" SET id = id || '-' WHERE "+pick+" 13 = 3")
		}
		for _, sql := range statements {
			if _, err := b.Pool.Exec(b.t.Context(), sql); err != nil {
				b.t.Fatal(err)
			}
		}
	}
}

// found is everything that a verify reports, in its order.
func (b *bench) found(memory int64) (reported []string) {
	b.t.Helper()
	err := b.within(memory).replayer().Verify(b.t.Context(), replay.VerifyRequest{},
		func(d replay.Difference) { reported = append(reported, d.String()) },
		func(v replay.Verification) {
			v.Took = 0
			reported = append(reported, fmt.Sprintf("%+v", v))
		})
	if err != nil {
		b.t.Fatal(err)
	}
	return reported
}

// In memory and in shadow tables, the same differences are found in the same
// order, and repaired in the same way.
func TestBothWaysDoTheSame(t *testing.T) {
	t.Parallel()
	for seed := range testkit.Scale(3, 6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Append(shuffled(projectionstest.Generate(t, "w", uint64(seed), 1000*(1+seed)), uint64(seed)))
			b.Project(1000)
			b.damageAtRandom(seed)
			inMemory, inTables := b.found(0), b.found(1)
			if !slices.Equal(inMemory, inTables) {
				t.Errorf("in memory:\n%s\nin shadow tables:\n%s", strings.Join(inMemory, "\n"), strings.Join(inTables, "\n"))
			}
			if len(inMemory) < 100 {
				t.Errorf("only %d differences", len(inMemory))
			}
			done := b.within(1).rebuild(b.replayer(), replay.RebuildRequest{})["w"]
			b.EqualsFold()
			b.damageAtRandom(seed)
			again := b.within(0).rebuild(b.replayer(), replay.RebuildRequest{})["w"]
			b.EqualsFold()
			done.Took, again.Took = 0, 0
			if done != again || done.Deleted == 0 {
				t.Errorf("in shadow tables %+v, in memory %+v", done, again)
			}
		})
	}
}

// temporaryTables counts the types of their rows.
const temporaryTables = `
	SELECT count(*)::text FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
	 WHERE t.typtype = 'c' AND starts_with(n.nspname, 'pg_temp_')`

// No shadow tables are left whether the work finishes, fails or is interrupted,
// and only finished work changes rows.
func TestShadowTablesEndWithTheWork(t *testing.T) {
	t.Parallel()
	b := projected(t).within(1)
	b.damage(`UPDATE client SET base = replace(base, '"name"', '"nome"')`)
	before := b.versions()
	unchanged := func(when string) {
		t.Helper()
		b.awaitText("0", temporaryTables)
		for row, xmin := range b.versions() {
			if before[row] != xmin {
				t.Errorf("%s, %s is written", when, row)
			}
		}
	}
	interrupted := errors.New("interrupted by a test")
	for last := 1; ; last += testkit.Scale(3, 1) {
		steps, seen := 0, ""
		ctx, stop := context.WithCancelCause(t.Context())
		r := b.replayer(func(c *replay.Config) {
			c.Workers = 1
			c.Limit = func(context.Context, int) error {
				if steps++; steps == last {
					seen = b.text(temporaryTables)
					stop(interrupted)
				}
				return nil
			}
		})
		err := r.Rebuild(ctx, replay.RebuildRequest{WorkspaceID: "ws-2"}, func(replay.Rebuilt) {})
		if err == nil {
			if last < 5 {
				t.Errorf("interrupted at %d moments only", last-1)
			}
			break
		}
		if seen == "0" {
			t.Errorf("at step %d there were no shadow tables", last)
		}
		unchanged(fmt.Sprint("interrupted at step ", last))
	}
	failing := b.replayer(func(c *replay.Config) {
		c.Rules = projections.Rules{Version: 1, Apply: func(s *domain.State, e *domain.Entry) {
			if e.Position == 600 {
				panic("no such rule")
			}
			s.Apply(e)
		}}
	})
	if err := failing.Rebuild(t.Context(), replay.RebuildRequest{WorkspaceID: "ws-1"}, nil); err == nil {
		t.Error("folded what cannot be folded")
	}
	b.awaitText("0", temporaryTables)
	b.rebuild(b.replayer(), replay.RebuildRequest{})
	b.EqualsFold()
	b.awaitText("0", temporaryTables)
}

// Whatever the search_path of a session is, the rows of shadow tables never get
// into the read tables.
func TestShadowTablesAreNotTheReadTables(t *testing.T) {
	t.Parallel()
	b := projected(t).within(1)
	b.damage(`UPDATE client SET base = replace(base, '"name"', '"nome"')`)
	testkit.AsOwner(t, b.Pool, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_temp', current_database()); END $$`)
	before := b.versions()
	lines, _ := b.verify(b.replayer(), replay.VerifyRequest{})
	if len(lines) == 0 {
		t.Error("the damage was not found")
	}
	after := b.versions()
	if !maps.Equal(before, after) {
		t.Errorf("rows were written: %d before, %d after", len(before), len(after))
	}
}

// measureEvery is how many pages there are to a measurement, which collects
// garbage, so that measuring takes no longer than the work. A landing has fewer pages.
func measureEvery() int { return testkit.Scale(2, 10) }

// largestHeap measures between pages of a replay how much memory is live beyond
// what was live before.
type largestHeap struct {
	before, most uint64
	pages        int
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func (h *largestHeap) measure(context.Context, int) error {
	if h.pages++; h.pages%measureEvery() == 0 {
		now := liveHeap()
		h.most = max(h.most, now-min(now, h.before))
	}
	return nil
}

// large appends a workspace of so many entries and moves its checkpoint to the
// end, although there are no rows.
func (b *bench) large(entries int) {
	b.t.Helper()
	end := time.Now().UTC().Truncate(24 * time.Hour)
	g := scenario.New(scenario.Config{
		WorkspaceID: "large", Seed: 1, Start: end.AddDate(-1, 0, 0), End: end, Entries: entries, Clients: 200, Contractors: 150,
	})
	var drafts []domain.Draft
	for line, ok := g.Next(); ok; line, ok = g.Next() {
		d, err := domain.DecodeDraft(line.AppendNDJSON(nil))
		if err != nil {
			b.t.Fatal(err)
		}
		if drafts = append(drafts, d); len(drafts) == 5000 {
			b.Append(drafts)
			drafts = drafts[:0]
		}
	}
	b.Append(drafts)
	b.damage(`UPDATE log_checkpoint SET position = $1, rules = $2`, entries, projections.RulesVersion)
}

// A workspace that does not fit into the memory takes little of it, even when
// every row is missing: pages, and what the connections keep to send them, which is
// 5 to 6 MiB for 25,000 entries as for 100,000. This test is not parallel, because
// it measures the heap.
func TestShadowTablesTakeLittleMemory(t *testing.T) {
	const little = 8 << 20
	entries := testkit.Scale(25_000, 100_000)
	b := newBench(t)
	b.large(entries)
	measured := func(memory int64) (*replay.Replayer, *replay.Progress, *largestHeap) {
		runtime.GC() // what has a finalizer goes with the second collection
		progress, heap := &replay.Progress{}, &largestHeap{before: liveHeap()}
		return b.replayer(func(c *replay.Config) { c.Memory, c.Progress, c.Limit, c.MassRows = memory, progress, heap.measure, 0 }), progress, heap
	}
	r, progress, inTables := measured(int64(entries) * 500)
	done := b.rebuild(r, replay.RebuildRequest{})["large"]
	if done.Written != done.Rows || done.Rows < int64(entries)/3 || progress.OverMemory.Load() != 1 {
		t.Errorf("rebuilt %+v, %d larger than the memory", done, progress.OverMemory.Load())
	}
	r, progress, inMemory := measured(int64(entries) * 2000)
	if lines, _ := b.verify(r, replay.VerifyRequest{}); len(lines) != 0 || progress.OverMemory.Load() != 0 {
		t.Errorf("%d larger than the memory; differences: %s", progress.OverMemory.Load(), strings.Join(lines[:min(len(lines), 5)], "\n"))
	}
	t.Logf("%d rows: at most %d KiB live in shadow tables, %d KiB in memory", done.Rows, inTables.most>>10, inMemory.most>>10)
	if inTables.most > little || inMemory.most < max(2*inTables.most, 900*uint64(done.Rows)) {
		t.Errorf("at most %d KiB live in shadow tables, %d KiB in memory", inTables.most>>10, inMemory.most>>10)
	}
}
