package replay_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/projections/projectionstest"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// storedTrees is all that is stored of trees.
const storedTrees = `SELECT md5(string_agg(row, ' ' ORDER BY row)) FROM (SELECT t::text AS row FROM event_tile t UNION ALL SELECT t::text FROM event_tree t) r`

func (b *bench) rebuildTrees(r *replay.Replayer, lost bool) replay.RebuiltTrees {
	b.t.Helper()
	var list []replay.RebuiltTrees
	err := r.RebuildTrees(b.t.Context(), "", lost, func(done replay.RebuiltTrees) { list = append(list, done) })
	if err != nil {
		b.t.Fatal(err)
	}
	if len(list) != 1 {
		b.t.Fatalf("rebuilt are %+v", list)
	}
	return list[0]
}

// TestRebuildTrees: what was lost or changed is made of the log again, byte for byte, and the
// builder goes on from it. A root that may have been published is never changed: then nothing is.
func TestRebuildTrees(t *testing.T) {
	t.Parallel()
	const cosigned = `INSERT INTO event_cosignature (workspace_id, sight, witness, origin, position, chain, size, root, line)
		SELECT workspace_id, sight, 'w1+00000000', 'o', position, chain, size, root, 'l' FROM event_tree WHERE sight = 'events'`
	for _, d := range []struct {
		name, before, sql string
		written, deleted  int64
		lost              bool   // it is asked for
		refused           string // a part of why
	}{
		{name: "nothing"},
		{name: "a byte of a full tile", sql: `UPDATE event_tile SET hashes = set_byte(hashes, 8000, get_byte(hashes, 8000) # 1) WHERE sight = 'events' AND level = 0 AND tile = 0`, written: 1},
		{name: "a byte of the tile at the edge", sql: `UPDATE event_tile SET hashes = set_byte(hashes, 3, get_byte(hashes, 3) # 128) WHERE sight = 'events-with-pay' AND level = 1`, written: 1},
		{name: "a full tile is missing", sql: `DELETE FROM event_tile WHERE sight = 'events' AND level = 0 AND tile = 0`, written: 1},
		{name: "all tiles are missing", sql: `DELETE FROM event_tile`, written: -1},
		{name: "tiles too many", sql: `INSERT INTO event_tile (workspace_id, sight, level, tile, hashes) SELECT workspace_id, sight, 3, 0, root FROM event_tree`, deleted: 2},
		{name: "the position of a last leaf", sql: `UPDATE event_tile SET through = through - 1 WHERE sight = 'events' AND level = 0 AND tile = 0`, written: 1},
		{name: "a lost tree", sql: `WITH k AS (DELETE FROM event_tile WHERE sight = 'events') DELETE FROM event_tree WHERE sight = 'events'`, refused: "the tree events is lost, and nothing that is kept here says"},
		{name: "a lost tree that is asked for", lost: true, sql: `WITH k AS (DELETE FROM event_tile WHERE sight = 'events') DELETE FROM event_tree WHERE sight = 'events'`, written: -1},
		{name: "a lost tree that was cosigned", before: cosigned, sql: `WITH k AS (DELETE FROM event_tile WHERE sight = 'events') DELETE FROM event_tree WHERE sight = 'events'`, written: -1},
		{name: "the root, and lost trees are asked for", lost: true, sql: `UPDATE event_tree SET root = set_byte(root, 31, get_byte(root, 31) # 1) WHERE sight = 'events'`, refused: "stored, has the root "},
		{name: "the root", sql: `UPDATE event_tree SET root = set_byte(root, 31, get_byte(root, 31) # 1) WHERE sight = 'events'`, refused: "the tree events at position 2000, stored, has the root "},
		{name: "the size", sql: `UPDATE event_tree SET size = size - 1 WHERE sight = 'events'`, refused: "the tree events at position 2000, stored, has "},
		{name: "the chain", sql: `UPDATE event_tree SET chain = set_byte(chain, 0, get_byte(chain, 0) # 1) WHERE sight = 'events-with-pay'`, refused: "belongs to another log"},
		{name: "a position after the log", sql: `UPDATE event_tree SET position = 2001 WHERE sight = 'events'`, refused: "is of position 2001, and the trees are built up to 2000"},
		{name: "what a witness saw", before: cosigned, sql: `UPDATE event_cosignature SET root = set_byte(root, 0, get_byte(root, 0) # 1)`, refused: "cosigned by w1+00000000, has the root"},
		{name: "a tree lost with the log's end", before: cosigned, sql: `WITH k AS (DELETE FROM event_tree) UPDATE event_cosignature SET position = 3000`, refused: "is of position 3000"},
		{name: "an event", sql: `UPDATE event_log SET public_event = replace(public_event, '"id"', '"ID"') WHERE position = (SELECT min(position) FROM event_log WHERE public_event IS NOT NULL)`, refused: "its log is not what was appended: "},
		{name: "an internal entry", sql: `UPDATE event_log SET data = '{"x":1}' WHERE position = (SELECT min(position) FROM event_log WHERE public_event IS NULL)`, refused: "its log is not what was appended: "},
	} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			b := withTrees(t)
			sound := b.text(storedTrees)
			for _, sql := range []string{d.before, d.sql} {
				if sql != "" {
					b.damage(sql)
				}
			}
			damaged := b.text(storedTrees)
			got := b.rebuildTrees(b.replayer(), d.lost)
			if d.refused != "" {
				if !strings.Contains(got.Refused, d.refused) || got.Written+got.Deleted != 0 || b.text(storedTrees) != damaged {
					t.Errorf("want a refusal with %q that changes nothing, got %+v", d.refused, got)
				}
				return
			}
			if got.Refused != "" || got.Position != 2000 || got.Deleted != d.deleted || d.written >= 0 && got.Written != d.written || d.written < 0 && got.Written < 2 {
				t.Errorf("%+v", got)
			}
			if b.text(storedTrees) != sound {
				t.Error("other bytes than before the damage")
			}
			if lines, _ := b.verify(b.replayer(), replay.VerifyRequest{}); len(lines) > 0 {
				t.Errorf("verify finds %s", strings.Join(lines, "\n"))
			}
			if n := b.text(`SELECT count(*)::text FROM console_audit WHERE object_name = 'event-trees'`); (n == "1") != (got.Written+got.Deleted > 0) {
				t.Errorf("%s lines in the record of changes after %+v", n, got)
			}
			b.Append(projectionstest.Generate(t, "ws-1", 1, 2300)[2000:])
			b.Project(1000)
			stop := b.buildTrees()
			b.treesAt("ws-1", 2300)
			stop()
		})
	}
}

// statements calls a function at each statement of a pool, with its text, before it runs.
type statements func(sql string)

// TraceQueryStart implements pgx.QueryTracer.
func (f statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	f(q.SQL)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer; a batch is known when its results are.
func (f statements) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	f(q.SQL)
}

// TraceBatchEnd implements pgx.BatchTracer.
func (statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// traced opens a pool that tells its statements.
func (b *bench) traced(conns int32, settings map[string]string, each statements) testkit.DB {
	b.t.Helper()
	pool := testkit.Must(pg.Open(b.t.Context(), b.URL, pg.Options{MaxConns: conns, Settings: settings, Tracer: each}))(b.t)
	b.t.Cleanup(pool.Close)
	return pool
}

// TestRebuildTreesBesideABuilder: a rebuild waits for a claim that is under way, the builder
// leaves out a workspace that is being rebuilt, and neither spoils what the other writes.
func TestRebuildTreesBesideABuilder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Append(projectionstest.Generate(t, "ws-1", 1, 4000))
	b.Project(1000)
	wake := func() { b.Notifier.Notify(eventlog.TopicProjected, "ws-1") }
	position := func() string { return b.text(`SELECT coalesce(min(position), 0)::text FROM event_tree`) }
	var tries, locks atomic.Int64
	locked, goOn := make(chan struct{}), make(chan struct{})
	r := b.replayer(func(c *replay.Config) {
		c.Pool = b.traced(6, replay.PoolSettings(), func(sql string) {
			switch {
			case strings.Contains(sql, "FOR UPDATE"):
				locks.Add(1)
			case strings.Contains(sql, "FROM event_log") && locks.CompareAndSwap(1, 2): // the first one that has the lock
				locked <- struct{}{}
				<-goOn
			}
		})
	})
	g := newGate(t)
	stop := b.buildTrees(g.hold, func(c *eventtree.BuilderConfig) {
		c.Pool = b.traced(eventtree.Connections, nil, func(sql string) {
			if strings.Contains(sql, "FOR UPDATE SKIP LOCKED") {
				tries.Add(1)
			}
		})
	})
	for range 4 {
		wake()
		testkit.Receive(t, g.at, "a claim of the builder")
		locks.Store(0)
		done := make(chan replay.RebuiltTrees, 1)
		go func() { done <- b.rebuildTrees(r, false) }()
		testkit.Eventually(t, func() error { return testkit.LockAwaited(t, b.Pool, 1) })
		g.let <- struct{}{}
		for under := true; under; {
			select {
			case <-g.at: // it was faster, and the rebuild waits for the next claim, too
				g.let <- struct{}{}
			case <-locked:
				at, before := position(), tries.Load()
				b.until(func() bool { wake(); return tries.Load() > before+1 }, func() string { return "the builder tries nothing" })
				if now := position(); now != at {
					t.Errorf("the builder came from %s to %s during the rebuild", at, now)
				}
				goOn <- struct{}{}
			case got := <-done:
				if under = false; got.Refused != "" || got.Written+got.Deleted != 0 || locks.Load() != 2 {
					t.Fatalf("%+v, and nothing was wrong; the builder was held off: %t", got, locks.Load() == 2)
				}
			}
		}
	}
	close(g.open)
	wake()
	b.treesAt("ws-1", 4000)
	stop()
	if got := b.rebuildTrees(b.replayer(), false); got.Position != 4000 || got.Refused != "" || got.Written+got.Deleted != 0 {
		t.Errorf("%+v after the builder's end, and nothing was wrong", got)
	}
	if lines, _ := b.verify(b.replayer(), replay.VerifyRequest{}); len(lines) > 0 {
		t.Errorf("verify finds %s", strings.Join(lines, "\n"))
	}
}
