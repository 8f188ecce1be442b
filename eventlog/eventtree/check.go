package eventtree

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Mismatch is one difference between what the log gives and a stored tree, or a checkpoint of the
// tree that somebody kept.
type Mismatch struct {
	Sight  Sight
	Kept   *State  // the checkpoint; nil: the stored tree differs
	Tile   string  // <level>/<number>; empty: the tree itself differs
	Field  string  // a column of event_tree or event_tile; empty: the row
	Stored *string // what is stored, or what the checkpoint says; nil: there is none
	Log    *string // what the log gives; nil: there must be none
}

// Kept is a checkpoint that somebody kept outside the database.
type Kept struct {
	Sight Sight
	State
}

// Check compares the trees of a workspace with its log. The caller adds the entries in order from
// position 1. Check builds both trees again, and holds only their edges and some full tiles. A
// Builder may go on meanwhile: Check compares the trees as they were when it began, and the bytes
// that growing tiles had then.
type Check struct {
	workspaceID string
	report      func(Mismatch)
	trees       []*checkedTree
	position    int64    // of the last entry
	chain       [32]byte // of the last entry
}

// checkedTree is a tree that Check builds again.
type checkedTree struct {
	sight   Sight
	tree    Tree
	through int64    // position of the last leaf
	targets []target // to compare it with, by position
	stored  int64    // position up to which tiles are stored
	full    []fullTile
}

// target is a state that a tree must have at its position.
type target struct {
	State
	kept bool // outside the database, so it has no tiles
	edge [levels]storedTile
}

type storedTile struct {
	hashes  []byte // nil: there is none
	through *int64
}

type fullTile struct {
	Tile
	through int64
}

// fullTiles is how many full tiles of a tree are compared at once: 8 KiB each.
const fullTiles = 64

// NewCheck begins a check of a workspace's trees as they are stored now, and of checkpoints of them
// that somebody kept. The check calls report with every difference.
func NewCheck(ctx context.Context, db Querier, workspaceID string, kept []Kept, report func(Mismatch)) (*Check, error) {
	c := &Check{workspaceID: workspaceID, report: report, chain: domain.Genesis(workspaceID)}
	for _, s := range Sights() {
		c.trees = append(c.trees, &checkedTree{sight: s})
	}
	if err := c.readStored(ctx, db); err != nil {
		return nil, err
	}
	if err := c.findExtra(ctx, db); err != nil {
		return nil, err
	}
	for i := range kept {
		t := c.of(kept[i].Sight)
		t.targets = append(t.targets, target{State: kept[i].State, kept: true})
	}
	for _, t := range c.trees {
		slices.SortStableFunc(t.targets, func(a, b target) int { return cmp.Compare(a.Position, b.Position) })
	}
	return c, nil
}

func (c *Check) of(s Sight) *checkedTree {
	return c.trees[slices.IndexFunc(c.trees, func(t *checkedTree) bool { return t.sight == s })]
}

// readStored reads the trees with the tiles at their edges, in one snapshot.
func (c *Check) readStored(ctx context.Context, db Querier) error {
	var (
		sight       Sight
		state       State
		chain, root []byte
		level       int
		edge        storedTile
	)
	found := map[Sight]*target{}
	if err := pg.ForEach(ctx, db, `
		SELECT t.sight, t.position, t.chain, t.size, t.root, l.level, k.hashes, k.through
		  FROM `+edges+`
		 WHERE t.workspace_id = $1`,
		[]any{c.workspaceID}, []any{&sight, &state.Position, &chain, &state.Size, &root, &level, &edge.hashes, &edge.through}, func() error {
			if found[sight] == nil {
				state.Chain, state.Root = [32]byte(chain), tlog.Hash(root)
				found[sight] = &target{State: state}
			}
			found[sight].edge[level] = storedTile{bytes.Clone(edge.hashes), edge.through}
			return nil
		}); err != nil {
		return fmt.Errorf("read the trees of %s: %w", c.workspaceID, err)
	}
	for s, stored := range found {
		t := c.of(s)
		t.targets, t.stored = append(t.targets, *stored), stored.Position
	}
	return nil
}

// findExtra reports stored tiles that no tree has, and trees that are lost. Each statement reads
// the trees again, because a Builder may have added to them.
func (c *Check) findExtra(ctx context.Context, db Querier) error {
	var sight Sight
	if err := pg.ForEach(ctx, db, `
		SELECT s.sight FROM log_checkpoint c CROSS JOIN unnest($3::text[]) AS s (sight)
		 WHERE c.workspace_id = $1 AND c.consumer = $2 AND c.position > 0
		   AND NOT EXISTS (SELECT FROM event_tree t WHERE t.workspace_id = c.workspace_id AND t.sight = s.sight)`,
		[]any{c.workspaceID, Consumer, Sights()}, []any{&sight}, func() error {
			c.report(Mismatch{Sight: sight, Log: text("a tree")})
			return nil
		}); err != nil {
		return fmt.Errorf("find trees of %s that are lost: %w", c.workspaceID, err)
	}
	var (
		level int
		tile  int64
	)
	if err := pg.ForEach(ctx, db, `
		SELECT k.sight, k.level, k.tile FROM event_tile k LEFT JOIN event_tree t ON t.workspace_id = k.workspace_id AND t.sight = k.sight
		 WHERE k.workspace_id = $1 AND k.tile * 256 >= coalesce(t.size, 0) >> (8 * k.level)`,
		[]any{c.workspaceID}, []any{&sight, &level, &tile}, func() error {
			c.report(Mismatch{Sight: sight, Tile: fmt.Sprintf("%d/%d", level, tile), Stored: text("a tile")})
			return nil
		}); err != nil {
		return fmt.Errorf("find tiles of %s that no tree has: %w", c.workspaceID, err)
	}
	return nil
}

// Add takes the next entry with its public form; nil: the entry is internal. pay says that only
// readers with pay:read may see the event.
func (c *Check) Add(e *domain.Entry, public *string, pay bool) {
	c.compareBefore(e.Position)
	var leaf *tlog.Hash
	for _, t := range c.trees {
		if public == nil || len(t.targets) == 0 || !t.sight.Has(pay) {
			continue
		}
		if leaf == nil {
			h := tlog.RecordHash([]byte(*public))
			leaf = &h
		}
		t.through = e.Position
		t.tree.Append(*leaf, func(full Tile) {
			if e.Position <= t.stored {
				t.full = append(t.full, fullTile{full, e.Position})
			}
		})
	}
	c.position, c.chain = e.Position, e.Chain
}

// compareBefore compares the trees with the states that they must have below a position.
func (c *Check) compareBefore(position int64) {
	for _, t := range c.trees {
		for len(t.targets) > 0 && t.targets[0].Position < position {
			c.compare(t, &t.targets[0])
			t.targets = t.targets[1:]
		}
	}
}

func (c *Check) compare(t *checkedTree, want *target) {
	m := Mismatch{Sight: t.sight}
	if want.kept {
		m.Kept = &want.State
	}
	differ := func(field, stored, log string) {
		if stored != log {
			m.Field, m.Stored, m.Log = field, &stored, &log
			c.report(m)
		}
	}
	if want.Position == c.position {
		differ("chain", base64.StdEncoding.EncodeToString(want.Chain[:]), base64.StdEncoding.EncodeToString(c.chain[:]))
	} else {
		differ("position", fmt.Sprint(want.Position), fmt.Sprint(c.position))
		if want.kept {
			return // the log ends before it, so its tree cannot be compared
		}
	}
	differ("size", fmt.Sprint(want.Size), fmt.Sprint(t.tree.Size()))
	differ("root", want.Root.String(), t.tree.Root().String())
	if want.kept {
		return
	}
	for _, tile := range t.tree.partial() {
		if tile.Index != want.Size>>(tileHeight*(tile.Level+1)) {
			continue // the sizes differ, which is already reported
		}
		c.compareTile(t.sight, &fullTile{tile, t.through}, want.edge[tile.Level])
	}
}

func (c *Check) compareTile(s Sight, log *fullTile, stored storedTile) {
	m := Mismatch{Sight: s, Tile: fmt.Sprintf("%d/%d", log.Level, log.Index)}
	if stored.hashes == nil {
		m.Log = text("a tile")
		c.report(m)
		return
	}
	if want := log.bytes(); !bytes.Equal(stored.hashes, want) {
		m.Field, m.Stored, m.Log = "hashes", excerpt(stored.hashes, want), excerpt(want, stored.hashes)
		c.report(m)
	}
	if log.Level == 0 && stored.through != nil && *stored.through != log.through {
		m.Field, m.Stored, m.Log = "through", text(fmt.Sprint(*stored.through)), text(fmt.Sprint(log.through))
		c.report(m)
	}
}

// excerpt describes hashes at the first place where they differ from others.
func excerpt(hashes, others []byte) *string {
	n := 0
	for n < len(hashes) && n < len(others) && hashes[n] == others[n] {
		n++
	}
	n /= tlog.HashSize
	if from := n * tlog.HashSize; from+tlog.HashSize <= len(hashes) {
		return text(fmt.Sprintf("%d hashes, hash %d is %s", len(hashes)/tlog.HashSize, n, tlog.Hash(hashes[from:])))
	}
	return text(fmt.Sprintf("%d hashes", len(hashes)/tlog.HashSize))
}

func text(s string) *string { return &s }

// Flush compares the full tiles with the stored ones, once there are many. Call it after every page
// of entries.
func (c *Check) Flush(ctx context.Context, db Querier) error {
	return c.compareFull(ctx, db, fullTiles)
}

// End compares what is left. Do not call Add afterwards.
func (c *Check) End(ctx context.Context, db Querier) error {
	for _, t := range c.trees {
		for i := range t.targets {
			c.compare(t, &t.targets[i])
		}
		t.targets = nil
	}
	return c.compareFull(ctx, db, 1)
}

// compareFull compares the full tiles of each tree, once at least the given number of them wait.
func (c *Check) compareFull(ctx context.Context, db Querier, least int) error {
	for _, t := range c.trees {
		for len(t.full) >= least {
			some := t.full[:min(fullTiles, len(t.full))]
			if err := c.compareStored(ctx, db, t.sight, some); err != nil {
				return err
			}
			t.full = slices.Delete(t.full, 0, len(some))
		}
	}
	return nil
}

func (c *Check) compareStored(ctx context.Context, db Querier, s Sight, tiles []fullTile) error {
	ats, indexes := make([]int16, len(tiles)), make([]int64, len(tiles))
	for i := range tiles {
		ats[i], indexes[i] = int16(tiles[i].Level), tiles[i].Index
	}
	stored := make([]storedTile, len(tiles))
	var (
		n    int
		tile storedTile
	)
	if err := pg.ForEach(ctx, db, `
		SELECT w.n, k.hashes, k.through FROM unnest($3::smallint[], $4::bigint[]) WITH ORDINALITY AS w (level, tile, n)
		  JOIN event_tile k ON k.workspace_id = $1 AND k.sight = $2 AND k.level = w.level AND k.tile = w.tile`,
		[]any{c.workspaceID, s, ats, indexes}, []any{&n, &tile.hashes, &tile.through}, func() error {
			stored[n-1] = storedTile{bytes.Clone(tile.hashes), tile.through}
			return nil
		}); err != nil {
		return fmt.Errorf("read tiles of %s: %w", c.workspaceID, err)
	}
	for i := range tiles {
		c.compareTile(s, &tiles[i], stored[i])
	}
	return nil
}
