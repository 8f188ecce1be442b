package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// treeFold gets the entries of a log, in order, and checks or rebuilds the event trees from them.
type treeFold interface {
	Add(e *domain.Entry, public *string, pay bool)
	Flush(ctx context.Context, db eventtree.Querier) error // after every page
	End(ctx context.Context, db eventtree.Querier) error
}

// newTreeCheck begins the check of a workspace's event trees and of the kept tree checkpoints.
func (r *Replayer) newTreeCheck(ctx context.Context, workspaceID string, kept []eventtree.Kept, report func(Difference)) (*eventtree.Check, error) {
	return eventtree.NewCheck(ctx, r.cfg.Pool, workspaceID, kept, func(m eventtree.Mismatch) {
		d := Difference{WorkspaceID: workspaceID, Resource: resourceTrees, ID: string(m.Sight), Field: m.Field, Stored: m.Stored, Folded: m.Log}
		switch {
		case m.Kept != nil:
			// Here the kept checkpoint is what is expected, and the log is what is stored.
			d.Resource, d.ID, d.Stored, d.Folded = ResourceKept, KeptID(&eventtree.Kept{Sight: m.Sight, State: *m.Kept}), m.Log, m.Stored
		case m.Tile != "":
			d.Resource, d.ID = resourceTiles, d.ID+"/"+m.Tile
		}
		if d.Field == "" {
			d.Field = fieldRow
		}
		report(d)
	})
}

// KeptID returns the name of a kept checkpoint in differences: <sight> of size <size> at position
// <position>.
func KeptID(k *eventtree.Kept) string {
	return fmt.Sprintf("%s of size %d at position %d", k.Sight, k.Size, k.Position)
}

// checkPage checks a page of entries and gives it to the event trees, if there are any in the fold.
func checkPage(ctx context.Context, f *workspaceFold, page []logRow) error {
	for i := range page {
		if f.check != nil {
			f.check.entry(&page[i])
		}
		if f.trees != nil {
			f.trees.Add(&page[i].Entry, page[i].public, page[i].pay)
		}
	}
	if f.trees != nil {
		return f.trees.Flush(ctx, f.cfg.Pool)
	}
	return nil
}

// RebuiltTrees is what a rebuild did with the event trees of one workspace.
type RebuiltTrees struct {
	WorkspaceID string        `json:"workspace_id"`
	Position    int64         `json:"position"`          // up to which they are built
	Written     int64         `json:"written"`           // tiles and trees that were missing or different
	Deleted     int64         `json:"deleted"`           // tiles that must not be there
	Refused     string        `json:"refused,omitempty"` // why nothing was changed
	Took        time.Duration `json:"-"`
}

// RebuildTrees makes the stored event trees of workspaces match their logs: it repairs the tiles
// that Verify would report. It never changes a root that may have been published. So it refuses a
// workspace whose log gives another root, and a workspace whose log itself is wrong. Without lost,
// it also refuses a workspace if no root of one of its trees is stored or cosigned. It calls done
// with every workspace, one call at a time. While it works on a workspace, nothing is added to the
// workspace's trees; everything else continues.
func (r *Replayer) RebuildTrees(ctx context.Context, workspaceID string, lost bool, done func(RebuiltTrees)) error {
	return forEach(ctx, r, workspaceID, "rebuild the trees of", func(ctx context.Context, w workspaceSize) (RebuiltTrees, error) {
		return r.rebuildTrees(ctx, w.id, lost)
	}, done)
}

// rebuildTrees rebuilds the trees of one workspace.
func (r *Replayer) rebuildTrees(ctx context.Context, workspaceID string, lost bool) (RebuiltTrees, error) {
	began := time.Now()
	b := RebuiltTrees{WorkspaceID: workspaceID}
	err := pg.InTx(ctx, r.cfg.Changes, func(tx pgx.Tx) error {
		// Between two writes, the transaction is idle while another connection reads enough of the
		// log to fill some tiles.
		if _, err := tx.Exec(ctx, `SET LOCAL idle_in_transaction_session_timeout = '10min'`); err != nil {
			return fmt.Errorf("let the transaction wait for the log: %w", err)
		}
		trees, err := eventtree.NewRebuild(ctx, tx, workspaceID, lost)
		if err != nil {
			return err
		}
		b.Position = trees.Position()
		if err := r.foldTrees(ctx, workspaceID, trees); err != nil {
			return err
		}
		b.Written, b.Deleted = trees.Written, trees.Deleted
		if b.Written+b.Deleted == 0 {
			return nil
		}
		return audit.Add(ctx, tx, r.cfg.Clock(), audit.Change{
			WorkspaceID: workspaceID, Action: audit.Rebuild, ObjectName: resourceTrees,
			Detail: fmt.Sprintf("%s written, %d deleted", texts.Count(b.Written, "tile or tree", "tiles and trees"), b.Deleted),
		})
	})
	if refused, ok := errors.AsType[*eventtree.RefusedError](err); ok {
		b.Refused, b.Written, b.Deleted, err = refused.Reason, 0, 0, nil
	}
	b.Took = time.Since(began)
	return b, err
}

// foldTrees checks the log and gives it to the trees.
func (r *Replayer) foldTrees(ctx context.Context, workspaceID string, trees *eventtree.Rebuild) error {
	var faults logFaults
	f := r.foldWithoutRows(workspaceID, newLogCheck(workspaceID, nil, faults.add))
	f.trees, f.locked = trees, true
	head, err := f.readHead(ctx)
	if err != nil {
		return err
	}
	if err := f.walk(ctx, 0, head.end(), checkOnly); err != nil {
		return err
	}
	if f.check.end(head); f.check.broken {
		return &eventtree.RefusedError{Reason: faults.refusal()}
	}
	return trees.End(ctx, nil)
}
