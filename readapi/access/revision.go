package access

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// BumpRevision makes every instance read the keys of a workspace again within a second
// of tx's commit. A transaction that changes what a Key shows of its workspace, which
// is the name, must call it last: all workspaces share the revision row, which stays
// locked until the transaction ends.
func BumpRevision(ctx context.Context, tx pgx.Tx, workspaceID string) error {
	// The keys are locked first and in order, because Store locks in that order too:
	// keys, then revision.
	const lock = `SELECT 1 FROM api_key
		WHERE workspace_id = $1 AND revoked_at IS NULL ORDER BY key_id FOR NO KEY UPDATE`
	if _, err := tx.Exec(ctx, lock, workspaceID); err != nil {
		return fmt.Errorf("lock the keys of the workspace %s: %w", workspaceID, err)
	}
	revision, err := nextRevision(ctx, tx)
	if err != nil {
		return err
	}
	const stamp = `UPDATE api_key SET revision = $2 WHERE workspace_id = $1 AND revoked_at IS NULL`
	if _, err := tx.Exec(ctx, stamp, workspaceID, revision); err != nil {
		return fmt.Errorf("stamp the keys of the workspace %s: %w", workspaceID, err)
	}
	return nil
}

// nextRevision takes the next revision and holds the row until tx ends, which is
// what makes revisions visible in order.
func nextRevision(ctx context.Context, tx pgx.Tx) (int64, error) {
	// A process that dies without closing its connection must not stop all others from
	// changing keys: the server ends a transaction that is idle after these statements,
	// which make one round trip.
	const (
		limit = `SELECT set_config('idle_in_transaction_session_timeout', '5s', true)`
		next  = `UPDATE access_revision SET revision = revision + 1 WHERE workspace_id = '*' RETURNING revision`
	)
	var (
		revision int64
		both     pgx.Batch
	)
	both.Queue(limit)
	both.Queue(next).QueryRow(func(row pgx.Row) error { return row.Scan(&revision) })
	if err := tx.SendBatch(ctx, &both).Close(); err != nil {
		return 0, fmt.Errorf("take the next access revision: %w", err)
	}
	return revision, nil
}
