package replay_test

import (
	"strings"
	"testing"

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
		{name: "the chain", sql: `UPDATE event_tree SET chain = set_byte(chain, 0, get_byte(chain, 0) # 1) WHERE sight = 'events-with-pay'`, refused: "is of another log"},
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

// TestRebuildTreesBesideABuilder: the builder waits for a workspace that is being rebuilt, and
// neither spoils what the other writes.
func TestRebuildTreesBesideABuilder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Append(projectionstest.Generate(t, "ws-1", 1, 4000))
	b.Project(1000)
	r := b.replayer()
	stop := b.buildTrees()
	const position = `SELECT coalesce(min(position), 0)::text FROM event_tree`
	distributed := testkit.Must(pg.OnCitus(t.Context(), b.Pool))(t)
	for at := "0"; at != "4000"; at = b.text(position) {
		if got := b.rebuildTrees(r, false); got.Refused != "" || got.Written+got.Deleted != 0 {
			t.Fatalf("%+v, and nothing was wrong", got)
		}
		if distributed {
			// A builder leaves out a workspace that is locked, and comes again. Transactions of a
			// cluster take so long that without a pause it would hardly ever find it free.
			b.until(func() bool { return b.text(position) != at }, func() string { return "the trees stay at " + at })
		}
	}
	stop()
	if lines, _ := b.verify(b.replayer(), replay.VerifyRequest{}); len(lines) > 0 {
		t.Errorf("verify finds %s", strings.Join(lines, "\n"))
	}
}
