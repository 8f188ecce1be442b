package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

// diagnosis answers whether the rows are wrong or the checkpoint is.
type diagnosis struct {
	checkpoint   *Difference // nil: nothing shows that the checkpoint is wrong
	explainsRows bool        // the rows are right for another position, so only the checkpoint is wrong
}

// diagnoseCheckpoint finds out whether the checkpoint is wrong: it is above the
// log, or the rows are those of another position.
//
// Rows that show an entry after the checkpoint prove that it was moved back.
// Rows that end before it may also have been deleted; then the checkpoint and
// the rows are both reported.
func (f *workspaceFold) diagnoseCheckpoint(ctx context.Context, rowsDiffer bool) (diagnosis, error) {
	h, err := f.readHead(ctx)
	if err != nil {
		return diagnosis{}, err
	}
	wrong := func(position int64) *Difference {
		return &Difference{
			WorkspaceID: f.workspaceID, Resource: resourceCheckpoint, ID: "read_models", Field: "position",
			Stored: shown(fmt.Sprint(h.checkpoint)), Folded: shown(fmt.Sprint(position)),
		}
	}
	if h.checkpoint > h.end() {
		return diagnosis{checkpoint: wrong(h.end())}, nil
	}
	if !rowsDiffer {
		return diagnosis{}, nil
	}
	stored, err := table.NewestPosition(ctx, f.cfg.Pool, f.tables, f.workspaceID)
	if err != nil || stored > h.end() {
		return diagnosis{}, err
	}
	folded, err := f.rows.newest(ctx)
	if err != nil {
		return diagnosis{}, err
	}
	other := f
	switch {
	case stored > h.checkpoint: // this fold goes on to there
	case stored < folded: // a fold cannot go back
		if other, err = f.fold(ctx, f.size, nil); err != nil {
			return diagnosis{}, err
		}
		defer other.rows.close(ctx)
	default:
		return diagnosis{}, nil
	}
	match, err := other.matchAt(ctx, stored, h.checkpoint)
	if err != nil || !match {
		return diagnosis{}, err
	}
	return diagnosis{checkpoint: wrong(stored), explainsRows: stored > h.checkpoint}, nil
}

// matchAt reports whether the stored rows are those of a position. The checkpoint
// must stay where it is.
func (f *workspaceFold) matchAt(ctx context.Context, position, checkpoint int64) (bool, error) {
	if err := f.foldTo(ctx, position); err != nil {
		return false, err
	}
	f.freeze()
	f.frozenAt = &checkpoint
	defer func() { f.frozenAt = nil }()
	match := true
	err := f.compareAll(ctx, everyTable, func(*table.Table, table.Key, [][]byte, []string) error {
		match = false
		return nil
	})
	if errors.Is(err, errCheckpointMoved) {
		return false, nil
	}
	return match, err
}
