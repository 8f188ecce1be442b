package eventtree

import (
	"bytes"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"
)

// growing is a tree that is being added to.
type growing struct {
	workspaceID string
	sight       Sight
	position    int64
	chain       []byte
	root        tlog.Hash // as it was read
	tree        Tree
	through     int64  // position of the last leaf; only of a tree that a leaf was added to
	full        []Tile // that have been filled
	throughs    []int64
	touched     [levels]bool // levels at which the tile at the edge has changed
}

// add adds an event.
func (g *growing) add(leaf tlog.Hash, position int64) {
	g.through = position
	g.touched[0] = true
	g.tree.Append(leaf, func(t Tile) {
		g.full, g.throughs = append(g.full, t), append(g.throughs, position)
		g.touched[t.Level], g.touched[t.Level+1] = false, true
	})
}

// DivergedError says that the log is not the one that a tree was built of.
type DivergedError struct {
	WorkspaceID string
	Sight       Sight
	Position    int64 // up to which it was built
}

// Error says what is different, and how that comes about.
func (e *DivergedError) Error() string {
	return fmt.Sprintf("the tree %s of %s was built of another log: at position %d the log holds another entry, or none, because an older backup of it was restored. "+
		"Checkpoints of the tree may have been published, so it is not changed", e.Sight, e.WorkspaceID, e.Position)
}

// edges are the trees t with the tiles k at their edges, a row for each level l that they
// have. There are eight at most, and one for all but few trees.
const edges = `event_tree t JOIN generate_series(0, 7) AS l (level) ON l.level = 0 OR t.size >> (8 * l.level) > 0
		  LEFT JOIN event_tile k ON k.workspace_id = t.workspace_id AND k.sight = t.sight AND k.level = l.level
		       AND k.tile = t.size >> (8 * l.level) >> 8 AND (t.size >> (8 * l.level)) % 256 > 0`

// load reads the trees of workspaces, by workspace. Those that have none get empty ones.
func load(ctx context.Context, tx pgx.Tx, workspaceIDs []string) (map[string][]*growing, error) {
	rows, err := tx.Query(ctx, `
		SELECT t.workspace_id, t.sight, t.position, t.chain, t.size, t.root, e.chain, l.level, k.hashes
		  FROM `+edges+`
		  LEFT JOIN event_log e ON e.workspace_id = t.workspace_id AND e.position = t.position
		 WHERE t.workspace_id = ANY ($1)`, workspaceIDs)
	if err != nil {
		return nil, fmt.Errorf("read trees: %w", err)
	}
	defer rows.Close()
	trees := make(map[string][]*growing, len(workspaceIDs))
	for _, id := range workspaceIDs {
		trees[id] = []*growing{{workspaceID: id, sight: WithoutPay}, {workspaceID: id, sight: WithPay}}
	}
	for rows.Next() {
		var (
			id             string
			sight          Sight
			position, size int64
			chain, inLog   []byte
			root           []byte
			level          int
			hashes         []byte
		)
		if err := rows.Scan(&id, &sight, &position, &chain, &size, &root, &inLog, &level, &hashes); err != nil {
			return nil, fmt.Errorf("read trees: %w", err)
		}
		g := trees[id][0]
		if sight == WithPay {
			g = trees[id][1]
		}
		g.position, g.chain, g.tree.size, g.root = position, chain, size, tlog.Hash(root)
		if !bytes.Equal(chain, inLog) {
			return nil, &DivergedError{id, sight, position}
		}
		if width := widthAtEdge(size, level); len(hashes) != width*tlog.HashSize {
			return nil, fmt.Errorf("the tree %s of %s has %d bytes at its edge at level %d, not %d hashes", sight, id, len(hashes), level, width)
		}
		g.tree.edge[level] = hashesOf(hashes)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read trees: %w", err)
	}
	for _, both := range trees {
		for _, g := range both {
			// A root that was published goes on only from the hashes that it is of.
			if g.position > 0 && g.tree.Root() != g.root {
				return nil, fmt.Errorf("the tree %s of %s has other hashes at its edge than those that its root is of: its tiles were changed", g.sight, g.workspaceID)
			}
		}
	}
	return trees, nil
}

// tileRows are rows of event_tile, by column.
type tileRows struct {
	workspaceIDs, sights []string
	levels               []int16
	tiles                []int64
	hashes               [][]byte
	throughs             []*int64
}

func (r *tileRows) add(g *growing, t *Tile, through int64) {
	r.workspaceIDs, r.sights = append(r.workspaceIDs, g.workspaceID), append(r.sights, string(g.sight))
	r.levels, r.tiles = append(r.levels, int16(t.Level)), append(r.tiles, t.Index)
	r.hashes = append(r.hashes, t.bytes())
	var of *int64
	if t.Level == 0 {
		of = &through
	}
	r.throughs = append(r.throughs, of)
}

// save writes what has changed of trees.
func save(ctx context.Context, tx pgx.Tx, trees []*growing) error {
	var (
		tiles                tileRows
		workspaceIDs, sights []string
		positions, sizes     []int64
		chains, roots        [][]byte
	)
	for _, g := range trees {
		for i := range g.full {
			tiles.add(g, &g.full[i], g.throughs[i])
		}
		for _, t := range g.tree.partial() {
			if g.touched[t.Level] {
				tiles.add(g, &t, g.through)
			}
		}
		root := g.tree.Root()
		workspaceIDs, sights = append(workspaceIDs, g.workspaceID), append(sights, string(g.sight))
		positions, sizes = append(positions, g.position), append(sizes, g.tree.size)
		chains, roots = append(chains, g.chain), append(roots, root[:])
	}
	var b pgx.Batch
	if len(tiles.tiles) > 0 {
		b.Queue(`
			INSERT INTO event_tile AS t (workspace_id, sight, level, tile, hashes, through)
			SELECT * FROM unnest($1::text[], $2::text[], $3::smallint[], $4::bigint[], $5::bytea[], $6::bigint[])
			    ON CONFLICT (workspace_id, sight, level, tile) DO UPDATE SET hashes = excluded.hashes, through = excluded.through`,
			tiles.workspaceIDs, tiles.sights, tiles.levels, tiles.tiles, tiles.hashes, tiles.throughs)
	}
	b.Queue(`
		INSERT INTO event_tree AS t (workspace_id, sight, position, chain, size, root, rules)
		SELECT *, $7::smallint FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[], $5::bigint[], $6::bytea[])
		    ON CONFLICT (workspace_id, sight) DO UPDATE
		       SET position = excluded.position, chain = excluded.chain, size = excluded.size, root = excluded.root`,
		workspaceIDs, sights, positions, chains, sizes, roots, Rules)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("write trees: %w", err)
	}
	return nil
}
