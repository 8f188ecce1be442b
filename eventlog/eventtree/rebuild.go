package eventtree

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// Rebuild makes the stored trees of a workspace what its log gives. The caller adds the entries in
// order from position 1. Rebuild never changes a root that may have been published: if the log
// gives another root, the error is a *RefusedError and the transaction must be rolled back. It
// holds only the edges of both trees and some full tiles.
type Rebuild struct {
	workspaceID string
	tx          pgx.Tx
	trees       []*rebuiltTree
	lost        bool     // make a tree again even if no root of it is kept
	begun       bool     // there is something to rebuild, and it is locked
	through     int64    // checkpoint of the trees' consumer
	position    int64    // of the last entry
	chain       [32]byte // of the last entry
	refused     *RefusedError

	Written, Deleted int64 // rows of event_tile and event_tree that were missing or wrong
}

// rebuiltTree is a tree that Rebuild builds again.
type rebuiltTree struct {
	growing
	published []publishedState // by position
	known     bool             // something was published
}

// publishedState is a state that readers may have been shown.
type publishedState struct {
	State
	by string // where it is kept
}

// RefusedError says that trees are not rebuilt, because that would change a published root.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

// NewRebuild locks the checkpoint of a workspace's trees, so that no Builder adds to them, and
// reads the roots they have been published with: the stored ones, and the ones that witnesses
// cosigned. A tree that has neither is made again only with lost: the caller must then know what
// was published.
func NewRebuild(ctx context.Context, tx pgx.Tx, workspaceID string, lost bool) (*Rebuild, error) {
	r := &Rebuild{workspaceID: workspaceID, tx: tx, lost: lost, chain: domain.Genesis(workspaceID)}
	for _, s := range Sights() {
		r.trees = append(r.trees, &rebuiltTree{growing: growing{workspaceID: workspaceID, sight: s}})
	}
	err := tx.QueryRow(ctx, `SELECT position FROM log_checkpoint WHERE workspace_id = $1 AND consumer = $2 FOR UPDATE`, workspaceID, Consumer).Scan(&r.through)
	if errors.Is(err, pgx.ErrNoRows) {
		return r, nil // nothing is built yet, and a Builder may begin at any moment, so nothing is written
	}
	if err != nil {
		return nil, fmt.Errorf("lock the trees of %s: %w", workspaceID, err)
	}
	r.begun = true
	var (
		sight       Sight
		p           publishedState
		chain, root []byte
	)
	if err := pg.ForEach(ctx, tx, `
		SELECT sight, position, chain, size, root, 'stored' FROM event_tree WHERE workspace_id = $1
		 UNION ALL SELECT sight, position, chain, size, root, 'cosigned by ' || witness FROM event_cosignature WHERE workspace_id = $1
		 ORDER BY 2`,
		[]any{workspaceID}, []any{&sight, &p.Position, &chain, &p.Size, &root, &p.by}, func() error {
			p.Chain, p.Root = [32]byte(chain), tlog.Hash(root)
			for _, t := range r.trees {
				if t.sight == sight {
					t.published, t.known = append(t.published, p), true
				}
			}
			return nil
		}); err != nil {
		return nil, fmt.Errorf("read the published trees of %s: %w", workspaceID, err)
	}
	return r, nil
}

// Position returns the position up to which the trees are built.
func (r *Rebuild) Position() int64 { return r.through }

// Add takes the next entry with its public form; nil: the entry is internal. pay says that only
// readers with pay:read may see the event.
func (r *Rebuild) Add(e *domain.Entry, public *string, pay bool) {
	r.holdBefore(e.Position)
	if e.Position > r.through {
		return
	}
	r.position, r.chain = e.Position, e.Chain
	if public == nil {
		return
	}
	leaf := tlog.RecordHash([]byte(*public))
	for _, t := range r.trees {
		if t.sight.Has(pay) {
			t.add(leaf, e.Position)
		}
	}
}

// holdBefore compares the trees with the published states below a position.
func (r *Rebuild) holdBefore(position int64) {
	for _, t := range r.trees {
		for len(t.published) > 0 && t.published[0].Position < position {
			r.hold(t, &t.published[0])
			t.published = t.published[1:]
		}
	}
}

func (r *Rebuild) hold(t *rebuiltTree, p *publishedState) {
	if r.refused != nil {
		return
	}
	root := t.tree.Root()
	var differs string
	switch {
	case p.Position != r.position:
		differs = fmt.Sprintf("is of position %d, and the trees are built up to %d", p.Position, r.position)
	case p.Chain != r.chain:
		differs = "belongs to another log"
	case p.Size != t.tree.Size():
		differs = fmt.Sprintf("has %s, and the log gives %d", texts.Count(p.Size, "event", "events"), t.tree.Size())
	case p.Root != root:
		differs = fmt.Sprintf("has the root %s, and the log gives %s", p.Root, root)
	default:
		return
	}
	r.refused = &RefusedError{fmt.Sprintf("the tree %s at position %d, %s, %s. Checkpoints of it may have been published, so it is not changed; ledgerfeed verify names all differences", t.sight, p.Position, p.by, differs)}
}

// Flush writes the full tiles, once there are many. Call it after every page of entries. The error
// may be a *RefusedError.
func (r *Rebuild) Flush(ctx context.Context, _ Querier) error { return r.write(ctx, fullTiles) }

// End writes what is left, and removes tiles that the trees do not have. Do not call Add
// afterwards. The error may be a *RefusedError.
func (r *Rebuild) End(ctx context.Context, _ Querier) error {
	if !r.begun {
		return nil
	}
	for _, t := range r.trees {
		for i := range t.published {
			r.hold(t, &t.published[i])
		}
		if !t.known && !r.lost && r.through > 0 && r.refused == nil {
			r.refused = &RefusedError{fmt.Sprintf("the tree %s is lost, and nothing that is kept here says which root it was published with", t.sight)}
		}
	}
	if r.refused == nil && r.position != r.through {
		r.refused = &RefusedError{fmt.Sprintf("the trees are built up to position %d, and the log ends at %d", r.through, r.position)}
	}
	if err := r.write(ctx, 1); err != nil {
		return err
	}
	for _, t := range r.trees {
		var edge tileRows
		for _, tile := range t.tree.partial() {
			edge.add(&t.growing, &tile, t.through)
		}
		if err := r.put(ctx, &edge); err != nil {
			return err
		}
		if err := r.finish(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// write writes the full tiles of each tree, once at least the given number of them wait.
func (r *Rebuild) write(ctx context.Context, least int) error {
	if r.refused != nil {
		return r.refused
	}
	for _, t := range r.trees {
		if len(t.full) < least {
			continue
		}
		var full tileRows
		for i := range t.full {
			full.add(&t.growing, &t.full[i], t.throughs[i])
		}
		if err := r.put(ctx, &full); err != nil {
			return err
		}
		t.full, t.throughs = nil, nil
	}
	return nil
}

// put writes the tiles of one tree that are missing or stored differently.
func (r *Rebuild) put(ctx context.Context, tiles *tileRows) error {
	if len(tiles.tiles) == 0 {
		return nil
	}
	done, err := r.tx.Exec(ctx, `
		INSERT INTO event_tile AS t (workspace_id, sight, level, tile, hashes, through)
		SELECT * FROM unnest($1::text[], $2::text[], $3::smallint[], $4::bigint[], $5::bytea[], $6::bigint[])
		    ON CONFLICT (workspace_id, sight, level, tile) DO UPDATE SET hashes = excluded.hashes, through = excluded.through
		 WHERE t.hashes <> excluded.hashes OR t.through IS DISTINCT FROM excluded.through`,
		tiles.workspaceIDs, tiles.sights, tiles.levels, tiles.tiles, tiles.hashes, tiles.throughs)
	if err != nil {
		return fmt.Errorf("write tiles of %s: %w", r.workspaceID, err)
	}
	r.Written += done.RowsAffected()
	return nil
}

// finish removes the tiles that a tree does not have, and writes the tree if it is lost.
func (r *Rebuild) finish(ctx context.Context, t *rebuiltTree) error {
	done, err := r.tx.Exec(ctx, `DELETE FROM event_tile WHERE workspace_id = $1 AND sight = $2 AND tile * 256 >= $3::bigint >> (8 * level)`,
		r.workspaceID, t.sight, t.tree.Size())
	if err != nil {
		return fmt.Errorf("remove tiles of %s: %w", r.workspaceID, err)
	}
	r.Deleted += done.RowsAffected()
	if r.through == 0 { // a tree begins with its first entries
		return nil
	}
	root := t.tree.Root()
	done, err = r.tx.Exec(ctx, `
		INSERT INTO event_tree (workspace_id, sight, position, chain, size, root, rules) VALUES ($1, $2, $3, $4, $5, $6, $7)
		    ON CONFLICT (workspace_id, sight) DO NOTHING`,
		r.workspaceID, t.sight, r.through, r.chain[:], t.tree.Size(), root[:], Rules)
	if err != nil {
		return fmt.Errorf("write a tree of %s: %w", r.workspaceID, err)
	}
	r.Written += done.RowsAffected()
	return nil
}
