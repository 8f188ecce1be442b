package eventlog

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Workspace is one customer of the billing product.
type Workspace struct {
	ID          string
	Name        string // the id until set
	NotifyEmail string // the finance team; empty: nobody
	CreatedAt   time.Time
}

// WorkspaceExistsError names a workspace that is there already.
type WorkspaceExistsError struct{ WorkspaceID string }

// Error names the workspace.
func (e *WorkspaceExistsError) Error() string {
	return fmt.Sprintf("there is a workspace %q already", e.WorkspaceID)
}

// CreateWorkspace makes a workspace with an empty log, in the caller's
// transaction. The error is a *WorkspaceExistsError when it is there already.
// Appending makes workspaces too, so this is for giving a name beforehand.
func (l *Log) CreateWorkspace(ctx context.Context, tx pgx.Tx, w Workspace) error {
	var made bool
	err := tx.QueryRow(ctx, `SELECT workspace_create($1, $2, $3)`, w.ID, w.Name, l.clock()).Scan(&made)
	if err != nil {
		return fmt.Errorf("create workspace %s: %w", w.ID, err)
	}
	if !made {
		return &WorkspaceExistsError{w.ID}
	}
	return l.SetWorkspace(ctx, tx, w.ID, nil, &w.NotifyEmail)
}

// SetWorkspace changes a workspace's name, or the address that is told of
// failing webhooks (empty: nobody), in the caller's transaction. Nil leaves as
// it is. The error is an *UnknownWorkspaceError when there is none.
func (l *Log) SetWorkspace(ctx context.Context, tx pgx.Tx, id string, name, notifyEmail *string) error {
	tag, err := tx.Exec(ctx, `
		UPDATE workspace SET name = coalesce($2, name),
		       notify_email = CASE WHEN $3::text IS NULL THEN notify_email ELSE nullif($3, '') END
		 WHERE workspace_id = $1`, id, name, notifyEmail)
	if err != nil {
		return fmt.Errorf("set workspace %s: %w", id, err)
	}
	if tag.RowsAffected() == 0 {
		return &UnknownWorkspaceError{id}
	}
	return nil
}

// ListWorkspaces returns all workspaces in the order of their ids.
func (l *Log) ListWorkspaces(ctx context.Context) ([]Workspace, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT workspace_id, name, coalesce(notify_email, ''), created_at FROM workspace ORDER BY workspace_id`)
	if err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Workspace])
	if err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	for i := range list {
		list[i].CreatedAt = list[i].CreatedAt.UTC()
	}
	return list, nil
}
