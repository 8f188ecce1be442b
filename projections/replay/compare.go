package replay

import (
	"context"
	"errors"
	"slices"

	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

// mismatch is called for every row of a table that is not as folded: stored is
// nil when it is missing, expected when it must not be there.
type mismatch func(t *table.Table, k table.Key, stored [][]byte, expected []string) error

// errCheckpointMoved says that the checkpoint moved during a comparison in a way
// that a working projector does not move it.
var errCheckpointMoved = errors.New("the checkpoint moved back, or moved while it was expected to stay, during the comparison")

// compareAll compares every table that is included.
func (f *workspaceFold) compareAll(ctx context.Context, included func(*table.Table) bool, visit mismatch) error {
	for _, t := range f.tables {
		if !included(t) {
			continue
		}
		if err := f.compareTable(ctx, t, visit); err != nil {
			return err
		}
	}
	return nil
}

func everyTable(*table.Table) bool { return true }

// firstPageRows is how many rows are read while it is not known how large they are.
const firstPageRows = 250

// compareTable compares a read table with the fold, page by page. The projector
// may go on meanwhile: every page is compared with the fold up to the checkpoint
// of the snapshot that the page was read in.
func (f *workspaceFold) compareTable(ctx context.Context, t *table.Table, visit mismatch) error {
	list := f.rows.list(t)
	after, rows := t.First(), firstPageRows
	for {
		page, err := t.ReadPage(ctx, f.cfg.Pool, f.workspaceID, after, rows)
		if err != nil {
			return err
		}
		if err := f.catchUp(ctx, page.Checkpoint); err != nil {
			return err
		}
		if err := f.comparePage(ctx, t, page, visit); err != nil {
			return err
		}
		last := page.Last()
		err = list(ctx, after, last, func(keys []table.Key) error { return f.findMissing(ctx, t, page, keys, visit) })
		if err != nil {
			return err
		}
		f.cfg.Progress.RowsCompared.Add(int64(len(page.Keys)))
		if err := f.limitRate(ctx, len(page.Keys)); err != nil {
			return err
		}
		if last == nil {
			return nil
		}
		after, rows = *last, page.NextRows()
	}
}

// comparePage compares the rows that are stored.
func (f *workspaceFold) comparePage(ctx context.Context, t *table.Table, page *table.Page, visit mismatch) error {
	return f.rows.expected(ctx, t, page.Keys, func(i int, expected []string) error {
		if expected != nil && table.Equal(page.Values[i], expected) {
			return nil
		}
		return visit(t, page.Keys[i], page.Values[i], expected)
	})
}

// findMissing visits those of the keys whose rows must be on the page and are
// not.
func (f *workspaceFold) findMissing(ctx context.Context, t *table.Table, page *table.Page, keys []table.Key, visit mismatch) error {
	keys = slices.DeleteFunc(keys, page.Holds)
	err := f.rows.expected(ctx, t, keys, func(i int, expected []string) error {
		if expected == nil {
			return nil
		}
		return visit(t, keys[i], nil, expected)
	})
	if err != nil {
		return err
	}
	return f.limitRate(ctx, len(keys))
}

// catchUp folds up to the checkpoint that rows were read at.
func (f *workspaceFold) catchUp(ctx context.Context, checkpoint int64) error {
	if f.frozenAt != nil {
		if checkpoint != *f.frozenAt {
			return errCheckpointMoved
		}
		return nil
	}
	if checkpoint < f.position {
		return errCheckpointMoved
	}
	return f.foldTo(ctx, checkpoint)
}
