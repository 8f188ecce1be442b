package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// What workspace.move says.
const (
	moved   = "moved"
	holding = "holding"
)

// MayChange makes sure that a workspace's keys, webhooks and names may be changed in tx:
// that another database does not have it, nor has begun to copy them. Until tx ends, no
// move goes past the step after which changes are lost. webhooks tells that a webhook or a
// delivery is changed, which is not possible either while deliveries are held for a move.
//
// The error is a *MovedError. That there is no such workspace is none: the caller finds
// that out. tx is of the isolation level read committed.
func MayChange(ctx context.Context, tx pgx.Tx, workspaceID string, webhooks bool) error {
	var move, to string
	// A move locks the row FOR UPDATE before it changes it, and nothing else conflicts.
	err := tx.QueryRow(ctx, `
		SELECT coalesce(move, ''), coalesce(moved_to, '') FROM workspace WHERE workspace_id = $1 FOR KEY SHARE`, workspaceID).Scan(&move, &to)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("look whether the workspace %s is being moved: %w", workspaceID, err)
	case move == "", move == holding && !webhooks:
		return nil
	}
	return &MovedError{WorkspaceID: workspaceID, To: to, Away: move == moved}
}
