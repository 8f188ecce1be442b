package replay_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/projections/projectionstest"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// buildTrees runs a builder of event trees until the returned function is called.
func (b *bench) buildTrees(change ...func(*eventtree.BuilderConfig)) (stop func()) {
	b.t.Helper()
	pool := testkit.OpenPool(b.t, b.URL, eventtree.Connections)
	cfg := eventtree.BuilderConfig{
		Pool: pool, Notifier: b.Notifier, Clock: time.Now, Logger: projectionstest.NoLog(), Entries: 100, Gather: time.Millisecond, Sweep: 20 * time.Millisecond,
	}
	for _, f := range change {
		f(&cfg)
	}
	builder := testkit.Must(eventtree.NewBuilder(cfg))(b.t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- builder.Run(ctx) }()
	return func() {
		b.t.Helper()
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
	}
}

// gate stops a builder of one workspace in each of its claims, before it commits, until a test
// lets it go on.
type gate struct {
	at   chan int64    // a claim is up to this position
	let  chan struct{} // it may go on
	open chan struct{} // closed: the builder stops no more
	ends context.Context
	last int64 // the position before; a claim tells its own once for each tree
}

func newGate(t *testing.T) *gate {
	t.Helper()
	return &gate{at: make(chan int64), let: make(chan struct{}), open: make(chan struct{}), ends: t.Context()}
}

func (g *gate) hold(c *eventtree.BuilderConfig) { c.Grown = g.grown }

func (g *gate) grown(_ string, position int64) {
	if position == g.last {
		return
	}
	g.last = position
	select {
	case g.at <- position:
	case <-g.open:
		return
	case <-g.ends.Done():
		return
	}
	select {
	case <-g.let:
	case <-g.open:
	case <-g.ends.Done():
	}
}

// treesAt waits until both trees of a workspace are built up to a position.
func (b *bench) treesAt(workspaceID string, position int64) {
	b.t.Helper()
	testkit.Eventually(b.t, func() error {
		states, err := eventtree.ReadStates(b.t.Context(), b.Pool, []string{workspaceID})
		if err != nil {
			return err
		}
		for _, s := range eventtree.Sights() {
			if at := states[workspaceID].Of(s).Position; at < position {
				return fmt.Errorf("the tree %s of %s is of position %d, not %d", s, workspaceID, at, position)
			}
		}
		return nil
	})
}

// withTrees is a bench with a projected workspace and its trees, of which both have full
// tiles.
func withTrees(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.Append(projectionstest.Generate(t, "ws-1", 1, 2000))
	b.Project(1000)
	stop := b.buildTrees()
	b.treesAt("ws-1", 2000)
	stop()
	if n := b.text(`SELECT count(*)::text FROM event_tile WHERE level = 0 AND octet_length(hashes) = 8192`); n < "2" {
		t.Fatalf("%s full tiles: too few to prove anything", n)
	}
	return b
}

// Every kind of damage to a tree is named, and no other difference is.
func TestVerifyNamesDamageToTrees(t *testing.T) {
	t.Parallel()
	for _, d := range []struct {
		name, sql string
		want      []string // the beginnings of all lines
	}{
		{"nothing", "", nil},
		{"a byte of a full tile", `UPDATE event_tile SET hashes = set_byte(hashes, 8000, get_byte(hashes, 8000) # 1) WHERE sight = 'events' AND level = 0 AND tile = 0`,
			[]string{"ws-1: event-tiles events/0/0, hashes: stored 256 hashes, hash 250 is "}},
		{"a byte of the tile at the edge", `UPDATE event_tile SET hashes = set_byte(hashes, 3, get_byte(hashes, 3) # 128) WHERE sight = 'events-with-pay' AND level = 1`,
			[]string{"ws-1: event-tiles events-with-pay/1/0, hashes: stored "}},
		{"a tile without its last hash", `UPDATE event_tile SET hashes = substr(hashes, 1, 8160) WHERE sight = 'events' AND level = 0 AND tile = 0`,
			[]string{"ws-1: event-tiles events/0/0, hashes: stored 255 hashes, folded 256 hashes, hash 255 is "}},
		{"a full tile is missing", `DELETE FROM event_tile WHERE sight = 'events' AND level = 0 AND tile = 0`,
			[]string{"ws-1: event-tiles events/0/0, row: stored nothing, folded a tile"}},
		{"the tile at the edge is missing", `DELETE FROM event_tile WHERE sight = 'events' AND level = 1`,
			[]string{"ws-1: event-tiles events/1/0, row: stored nothing, folded a tile"}},
		{"a tile too many", `INSERT INTO event_tile (workspace_id, sight, level, tile, hashes) SELECT workspace_id, sight, 3, 0, root FROM event_tree WHERE sight = 'events'`,
			[]string{"ws-1: event-tiles events/3/0, row: stored a tile, folded nothing"}},
		{"the position of a last leaf", `UPDATE event_tile SET through = through - 1 WHERE sight = 'events' AND level = 0 AND tile = 0`,
			[]string{"ws-1: event-tiles events/0/0, through: stored "}},
		{"the root", `UPDATE event_tree SET root = set_byte(root, 31, get_byte(root, 31) # 1) WHERE sight = 'events'`,
			[]string{"ws-1: event-trees events, root: stored "}},
		{"the size", `UPDATE event_tree SET size = size - 1 WHERE sight = 'events'`,
			[]string{"ws-1: event-trees events, size: stored "}},
		{"the chain", `UPDATE event_tree SET chain = set_byte(chain, 0, get_byte(chain, 0) # 1) WHERE sight = 'events-with-pay'`,
			[]string{"ws-1: event-trees events-with-pay, chain: stored "}},
		{"a position after the log", `UPDATE event_tree SET position = 2001 WHERE sight = 'events'`,
			[]string{"ws-1: event-trees events, position: stored 2001, folded 2000"}},
		{"a lost tree", `WITH k AS (DELETE FROM event_tile WHERE sight = 'events') DELETE FROM event_tree WHERE sight = 'events'`,
			[]string{"ws-1: event-trees events, row: stored nothing, folded a tree"}},
		{"an event", `UPDATE event_log SET public_event = replace(public_event, '"id"', '"ID"') WHERE position = (SELECT min(position) FROM event_log WHERE public_event IS NOT NULL AND type <> 'payout.paid')`,
			[]string{
				"ws-1: event-tiles events-with-pay/0/0, hashes: ", "ws-1: event-tiles events-with-pay/1/0, hashes: ", "ws-1: event-tiles events/0/0, hashes: ", "ws-1: event-tiles events/1/0, hashes: ",
				"ws-1: event-trees events, root: ", "ws-1: event-trees events-with-pay, root: ", "ws-1: log ",
			}},
	} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			b := withTrees(t)
			if d.sql != "" {
				b.damage(d.sql)
			}
			lines, _ := b.verify(b.replayer(), replay.VerifyRequest{})
			if !slices.EqualFunc(lines, d.want, strings.HasPrefix) {
				t.Errorf("named:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(d.want, "\n"))
			}
		})
	}
}

// Trees that are behind the log, or not begun, are as the log gives them, also while a builder
// adds to them.
func TestVerifyBesideABuilder(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, memory int64) {
		b := newBench(t).within(memory)
		b.Append(projectionstest.Generate(t, "ws-1", 1, 2000))
		b.Project(1000)
		g, at := newGate(t), int64(2000) // nothing is built yet
		r := b.replayer(func(c *replay.Config) {
			c.Limit = func(context.Context, int) error {
				if at < 2000 { // the builder makes one claim between two pages
					at = <-g.at
					g.let <- struct{}{}
				}
				return nil
			}
		})
		verify := func() {
			t.Helper()
			if lines, _ := b.verify(r, replay.VerifyRequest{}); len(lines) > 0 {
				t.Fatalf("false differences: %s", strings.Join(lines, "\n"))
			}
		}
		verify()
		stop := b.buildTrees(g.hold)
		for at = 0; at < 2000; {
			verify()
		}
		b.treesAt("ws-1", 2000)
		stop()
		verify()
	})
}

// A checkpoint that somebody kept proves the log up to its position, whatever has been
// computed again inside of the database, and also where no tree is stored.
func TestVerifyAgainstKeptCheckpoints(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	drafts := projectionstest.Generate(t, "ws-1", 1, 2000)
	stop := b.buildTrees()
	var kept []eventtree.Kept
	keep := func() {
		t.Helper()
		states := testkit.Must(eventtree.ReadStates(t.Context(), b.Pool, []string{"ws-1"}))(t)["ws-1"]
		for _, s := range eventtree.Sights() {
			kept = append(kept, eventtree.Kept{Sight: s, State: *states.Of(s)})
		}
	}
	b.Append(drafts[:1])
	keep() // of trees that are empty
	for from := 1; from < len(drafts); from += 900 {
		through := min(from+900, len(drafts))
		b.Append(drafts[from:through])
		b.Project(1000)
		b.treesAt("ws-1", int64(through))
		keep()
	}
	stop()
	verify := func(of ...eventtree.Kept) []string {
		t.Helper()
		lines, _ := b.verify(b.replayer(), replay.VerifyRequest{WorkspaceID: "ws-1", Kept: of})
		return lines
	}
	if lines := verify(kept...); len(lines) > 0 {
		t.Fatalf("all are right, but: %v", lines)
	}
	last := len(kept) - 1
	for name, test := range map[string]struct {
		change func(*eventtree.Kept)
		want   string // the line, after the checkpoint's name
	}{
		"another root":    {func(k *eventtree.Kept) { k.Root[31] ^= 1 }, "root: stored " + kept[last].Root.String()},
		"another size":    {func(k *eventtree.Kept) { k.Size-- }, fmt.Sprintf("size: stored %d, folded %d", kept[last].Size, kept[last].Size-1)},
		"another chain":   {func(k *eventtree.Kept) { k.Chain[0] ^= 128 }, "chain: stored "},
		"of lost entries": {func(k *eventtree.Kept) { k.Position += 7 }, "position: stored 2000, folded 2007"},
	} {
		for _, i := range []int{2, last} {
			other := kept[i]
			test.change(&other)
			if name == "of lost entries" {
				other.Position = 2007
			}
			want := "ws-1: kept-checkpoint " + replay.KeptID(&other) + ", "
			if i == last {
				want += test.want
			}
			if lines := verify(other); len(lines) != 1 || !strings.HasPrefix(lines[0], want) {
				t.Errorf("%s: %v, want %s", name, lines, want)
			}
		}
	}
	b.damage(`DELETE FROM event_tile`)
	b.damage(`DELETE FROM event_tree`)
	b.damage(`UPDATE log_checkpoint SET position = 0 WHERE consumer = 'event_trees'`)
	if lines := verify(kept...); len(lines) > 0 {
		t.Errorf("without trees: %v", lines)
	}
}
