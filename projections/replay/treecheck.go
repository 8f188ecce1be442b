package replay

import (
	"context"
	"fmt"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
)

// treeFold gets the entries of a log, in order, to check or rebuild the event trees by them.
type treeFold interface {
	Add(e *domain.Entry, public *string, pay bool)
	Flush(ctx context.Context, db eventtree.Querier) error // after every page
	End(ctx context.Context, db eventtree.Querier) error
}

// newTreeCheck begins the check of a workspace's event trees, and of checkpoints of them that
// were kept.
func (r *Replayer) newTreeCheck(ctx context.Context, workspaceID string, kept []eventtree.Kept, report func(Difference)) (*eventtree.Check, error) {
	return eventtree.NewCheck(ctx, r.cfg.Pool, workspaceID, kept, func(m eventtree.Mismatch) {
		d := Difference{WorkspaceID: workspaceID, Resource: resourceTrees, ID: string(m.Sight), Field: m.Field, Stored: m.Stored, Folded: m.Log}
		switch {
		case m.Kept != nil:
			// What was kept is how it must be, and the log is how it is.
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

// KeptID is how differences name a checkpoint that was kept: <sight> of size <size> at
// position <position>.
func KeptID(k *eventtree.Kept) string {
	return fmt.Sprintf("%s of size %d at position %d", k.Sight, k.Size, k.Position)
}

// checkPage proves a page of entries, and the event trees by them.
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
