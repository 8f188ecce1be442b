package delivery

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// ErrHistoryComes means that a workspace has just come from another database, and that its
// deliveries from before are still being copied (docs/operations/moving.md): what was missed
// is not known yet.
var ErrHistoryComes = errors.New("deliveries from before the workspace was moved here are still being copied; try again when ledgerfeed workspace move has ended")

// mayChange makes sure that a move of the workspace to another database loses nothing of
// the change. The error is an *eventlog.MovedError.
func mayChange(ctx context.Context, tx pgx.Tx, workspaceID string) error {
	return eventlog.MayChange(ctx, tx, workspaceID, true)
}

// historyIsWhole makes sure that the deliveries of a workspace that has come from another
// database are here.
func historyIsWhole(ctx context.Context, tx pgx.Tx, workspaceID string) error {
	var comes bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM workspace_move WHERE workspace_id = $1 AND state = 'open')`, workspaceID).Scan(&comes)
	if err != nil {
		return fmt.Errorf("look whether the deliveries of %s are whole: %w", workspaceID, err)
	}
	if comes {
		return ErrHistoryComes
	}
	return nil
}
