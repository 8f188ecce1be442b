package replay

import (
	"context"

	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
)

// newTreeCheck begins the check of a workspace's event trees.
func (r *Replayer) newTreeCheck(ctx context.Context, workspaceID string, report func(Difference)) (*eventtree.Check, error) {
	return eventtree.NewCheck(ctx, r.cfg.Pool, workspaceID, func(m eventtree.Mismatch) {
		d := Difference{WorkspaceID: workspaceID, Resource: resourceTrees, ID: string(m.Sight), Field: m.Field, Stored: m.Stored, Folded: m.Log}
		if m.Tile != "" {
			d.Resource, d.ID = resourceTiles, d.ID+"/"+m.Tile
		}
		if d.Field == "" {
			d.Field = fieldRow
		}
		report(d)
	})
}

// checkPage proves a page of entries, and the event trees by them.
func checkPage(ctx context.Context, f *workspaceFold, page []logRow) error {
	for i := range page {
		if f.check != nil {
			f.check.entry(&page[i])
		}
		if f.trees != nil {
			f.trees.Add(&page[i].Entry, page[i].public)
		}
	}
	if f.trees != nil {
		return f.trees.Flush(ctx, f.cfg.Pool)
	}
	return nil
}
