package delivery

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// ErrHistoryComes means that a workspace has just been moved here and its old deliveries are still
// being copied (docs/operations/moving.md), so it is not known yet which events were missed.
var ErrHistoryComes = errors.New("deliveries from before the workspace was moved here are still being copied; try again when ledgerfeed workspace move has ended")

// mayChange makes sure that a move of the workspace to another database does not lose the change.
// It returns an *eventlog.MovedError if the change is not possible here or now.
func mayChange(ctx context.Context, tx pgx.Tx, workspaceID string) error {
	return eventlog.MayChange(ctx, tx, workspaceID, true)
}

// historyIsWhole returns ErrHistoryComes while the old deliveries of a workspace that was moved
// here are still being copied.
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
