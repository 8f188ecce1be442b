package projections

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// judged is what became of the question whether rows or the checkpoint are
// wrong.
type judged struct {
	checkpoint *Difference // nil: it is right, as far as the rows tell
	explains   bool        // and the rows are right for another position
}

// judge finds out whether the checkpoint is what differs: it is above the log,
// or the rows are those of another position.
//
// Rows that show an entry after the checkpoint prove that it was moved back.
// Rows that end before it may as well have been deleted; then both are named.
func (r *refold) judge(ctx context.Context, differing bool) (judged, error) {
	h, err := r.head(ctx)
	if err != nil {
		return judged{}, err
	}
	end := max(h.position, h.newest)
	wrong := func(position int64) *Difference {
		return &Difference{
			WorkspaceID: r.workspaceID, Resource: resourceCheckpoint, ID: "read_models", Field: "position",
			Stored: shown(fmt.Sprint(h.checkpoint)), Folded: shown(fmt.Sprint(position)),
		}
	}
	if h.checkpoint > end {
		return judged{checkpoint: wrong(end)}, nil
	}
	if !differing {
		return judged{}, nil
	}
	stand, err := newestShown(ctx, r.cfg.Pool, r.sheets, r.workspaceID)
	if err != nil || stand > end {
		return judged{}, err
	}
	newest, err := r.rows.newest(ctx)
	if err != nil {
		return judged{}, err
	}
	other := r
	switch {
	case stand > h.checkpoint:
	case stand < newest:
		if other, err = r.refold(ctx, r.size, nil); err != nil {
			return judged{}, err
		}
		defer other.rows.close(ctx)
	default:
		return judged{}, nil
	}
	fits, err := other.fits(ctx, stand, h.checkpoint)
	if err != nil || !fits {
		return judged{}, err
	}
	return judged{checkpoint: wrong(stand), explains: stand > h.checkpoint}, nil
}

// fits tells whether the rows are those of a position, while the checkpoint
// stays where it is.
func (r *refold) fits(ctx context.Context, position, checkpoint int64) (bool, error) {
	if err := r.through(ctx, position); err != nil {
		return false, err
	}
	r.settle()
	r.pinned = &checkpoint
	defer func() { r.pinned = nil }()
	fits := true
	err := r.compareAll(ctx, nil, func(*sheet, key, [][]byte, []string) error { fits = false; return nil })
	if errors.Is(err, errCheckpointMoved) {
		return false, nil
	}
	return fits, err
}

// newestShown is the newest entry that any row shows.
func newestShown(ctx context.Context, from querier, sheets []*sheet, workspaceID string) (position int64, err error) {
	newest := make([]string, len(sheets))
	for i, s := range sheets {
		newest[i] = "(SELECT max(position) FROM " + s.table + " WHERE workspace_id = $1)"
	}
	err = from.QueryRow(ctx, "SELECT coalesce(greatest("+strings.Join(newest, ", ")+"), 0)", workspaceID).Scan(&position)
	if err != nil {
		return 0, fmt.Errorf("read where the rows of %s stand: %w", workspaceID, err)
	}
	return position, nil
}
