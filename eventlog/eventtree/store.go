package eventtree

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// growing is a tree that events are being added to.
type growing struct {
	workspaceID string
	sight       Sight
	position    int64
	chain       []byte
	root        tlog.Hash // as it was read
	tree        Tree
	through     int64  // position of the last leaf; 0 until a leaf is added
	full        []Tile // tiles that have been filled
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

// DivergedError says that the log is not the one that a tree was built from.
type DivergedError struct {
	WorkspaceID string
	Sight       Sight
	Position    int64 // up to which it was built
}

// Error says what is different, and how that comes about.
func (e *DivergedError) Error() string {
	return fmt.Sprintf("the tree %s of %s was built from another log: at position %d the log holds another entry, or none, because an older backup of it was restored. "+
		"Checkpoints of the tree may have been published, so it is not changed", e.Sight, e.WorkspaceID, e.Position)
}

// edges is the SQL for trees t with the tiles k at their edges, one row for each level l of a tree.
// A tree has at most eight levels, and most trees have one.
const edges = `event_tree t JOIN generate_series(0, 7) AS l (level) ON l.level = 0 OR t.size >> (8 * l.level) > 0
		  LEFT JOIN event_tile k ON k.workspace_id = t.workspace_id AND k.sight = t.sight AND k.level = l.level
		       AND k.tile = t.size >> (8 * l.level) >> 8 AND (t.size >> (8 * l.level)) % 256 > 0`

// load reads the trees of workspaces, by workspace. A workspace without trees gets empty ones.
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
			// A tree may grow only from the hashes that give its published root.
			if g.position > 0 && g.tree.Root() != g.root {
				return nil, fmt.Errorf("the tree %s of %s has hashes at its edge that do not give its root: its tiles were changed", g.sight, g.workspaceID)
			}
		}
	}
	return trees, nil
}

// tileRows holds rows of event_tile, by column.
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

// save writes what has changed in trees.
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

// ReadTile reads the hashes of a tile, each of 32 bytes; nil: the tree does not have the tile, or
// not that many of its hashes. position is the position of the log up to which the tree is built.
func ReadTile(ctx context.Context, db Querier, workspaceID string, s Sight, p Path) (hashes []byte, position int64, err error) {
	var size *int64
	err = db.QueryRow(ctx, `
		SELECT t.position, t.size, k.hashes FROM event_tree t
		  LEFT JOIN event_tile k ON k.workspace_id = t.workspace_id AND k.sight = t.sight AND k.level = $3 AND k.tile = $4
		 WHERE t.workspace_id = $1 AND t.sight = $2`, workspaceID, s, min(p.Level, levels), p.Index).Scan(&position, &size, &hashes)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read a tile of the tree %s of %s: %w", s, workspaceID, err)
	}
	if p.Level >= levels || size == nil || !hasTile(*size, p.Level, p.Index, p.Width) {
		return nil, position, nil
	}
	if len(hashes) < p.Width*tlog.HashSize {
		return nil, position, fmt.Errorf("tile %d at level %d of the tree %s of %s has %d bytes, less than %d hashes", p.Index, p.Level, s, workspaceID, len(hashes), p.Width)
	}
	return hashes[:p.Width*tlog.HashSize], position, nil
}

// errEntryTooLong says that an event is too long for a bundle.
var errEntryTooLong = fmt.Errorf("an event has more than %d bytes, the most of an entry in a bundle", math.MaxUint16)

// ReadBundle reads the leaves of a tile of level 0 from the log, each after its length in two
// bytes; nil: the tree does not have that many leaves, or the first of them was published before
// oldest. position is the position of the log up to which the tree is built.
func ReadBundle(ctx context.Context, db Querier, workspaceID string, s Sight, p Path, oldest time.Time) (bundle []byte, position int64, err error) {
	var (
		at    int64
		event string
		made  *time.Time
		n     int
	)
	err = pg.ForEach(ctx, db, `
		WITH tree AS MATERIALIZED (
			SELECT t.position, t.size, coalesce((SELECT k.through FROM event_tile k
			         WHERE k.workspace_id = $1 AND k.sight = $2 AND k.level = 0 AND k.tile = $3::bigint - 1), 0) AS after
			  FROM event_tree t WHERE t.workspace_id = $1 AND t.sight = $2 AND t.size >= $3 * 256 + $4::bigint
		)
		(SELECT position, '' AS event, NULL::timestamptz AS created_at FROM event_tree WHERE workspace_id = $1 AND sight = $2)
		UNION ALL
		(SELECT position, event, created_at FROM (
			SELECT position, public_event AS event, created_at FROM event_log
			 WHERE workspace_id = $1 AND position > (SELECT after FROM tree) AND position <= (SELECT position FROM tree)
			   AND public_event IS NOT NULL`+s.condition()+`
			 ORDER BY position LIMIT 256) e LIMIT $4)`, []any{workspaceID, s, p.Index, p.Width}, []any{&at, &event, &made}, func() error {
		switch {
		case made == nil:
			position = at
			return nil
		case made.Before(oldest):
			n = -TileWidth // the others do not matter
			return nil
		case len(event) > math.MaxUint16:
			return errEntryTooLong
		}
		n++
		bundle = append(binary.BigEndian.AppendUint16(bundle, uint16(len(event))), event...)
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read a bundle of the tree %s of %s: %w", s, workspaceID, err)
	}
	if n != p.Width {
		return nil, position, nil
	}
	return bundle, position, nil
}

// mostUncounted is the maximum number of events after the end of a tree that are counted to find
// the index of one of them.
const mostUncounted = 2000

// IndexOf returns the index that the event at a position has in a tree, even if the tree is not
// built up to there yet. ok is false if the tree is too far behind to tell.
func IndexOf(ctx context.Context, db Querier, workspaceID string, s Sight, position int64) (index int64, ok bool, err error) {
	var counted int64
	err = db.QueryRow(ctx, `
		WITH before AS MATERIALIZED (
			SELECT tile * 256 + octet_length(hashes) / 32 AS leaves, through FROM event_tile
			 WHERE workspace_id = $1 AND sight = $2 AND level = 0 AND through < $3 ORDER BY through DESC LIMIT 1
		)
		SELECT coalesce((SELECT leaves FROM before), 0),
		       (SELECT count(*) FROM (
		          SELECT FROM event_log
		           WHERE workspace_id = $1 AND position > coalesce((SELECT through FROM before), 0) AND position < $3
		             AND public_event IS NOT NULL`+s.condition()+`
		           ORDER BY position LIMIT $4) e)`, workspaceID, s, position, mostUncounted).Scan(&index, &counted)
	if err != nil {
		return 0, false, fmt.Errorf("find the index of an event of %s: %w", workspaceID, err)
	}
	return index + counted, counted < mostUncounted, nil
}

// Path names a tile, or a bundle of entries.
type Path struct {
	Level int   // of a tile
	Index int64 // of the tile
	Width int   // how many hashes or entries: TileWidth for a full one
}

// Full reports whether it names a full tile or bundle.
func (p Path) Full() bool { return p.Width == TileWidth }

// ParsePath reads <L>/<N>[.p/<W>] from the path of a tile (https://c2sp.org/tlog-tiles). Trees here
// have only the first few levels, and no log has tiles with more than 15 digits.
func ParsePath(text string) (p Path, ok bool) {
	t, err := tlog.ParseTilePath("tile/8/" + text)
	return Path{t.L, t.N, t.W}, err == nil && t.L >= 0 && t.L < 64 && t.N < 1e15
}
