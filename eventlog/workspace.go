package eventlog

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
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
// it is. The error is an *domain.UnknownWorkspaceError when there is none.
func (l *Log) SetWorkspace(ctx context.Context, tx pgx.Tx, id string, name, notifyEmail *string) error {
	tag, err := tx.Exec(ctx, `
		UPDATE workspace SET name = coalesce($2, name),
		       notify_email = CASE WHEN $3::text IS NULL THEN notify_email ELSE nullif($3, '') END
		 WHERE workspace_id = $1`, id, name, notifyEmail)
	if err != nil {
		return fmt.Errorf("set workspace %s: %w", id, err)
	}
	if tag.RowsAffected() == 0 {
		return &domain.UnknownWorkspaceError{WorkspaceID: id}
	}
	return nil
}

// Workspaces returns all workspaces in the order of their ids.
func (l *Log) Workspaces(ctx context.Context) ([]Workspace, error) {
	list, err := l.workspaces(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	return list, nil
}

// Workspace returns one workspace; the error is an *domain.UnknownWorkspaceError when
// there is none of this id.
func (l *Log) Workspace(ctx context.Context, id string) (Workspace, error) {
	list, err := l.workspaces(ctx, " WHERE workspace_id = $1", id)
	if err != nil {
		return Workspace{}, fmt.Errorf("read workspace %s: %w", id, err)
	}
	if len(list) == 0 {
		return Workspace{}, &domain.UnknownWorkspaceError{WorkspaceID: id}
	}
	return list[0], nil
}

func (l *Log) workspaces(ctx context.Context, where string, args ...any) ([]Workspace, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT workspace_id, name, coalesce(notify_email, ''), created_at FROM workspace`+where+` ORDER BY workspace_id`, args...)
	if err != nil {
		return nil, err //nolint:wrapcheck // the callers say what they read
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Workspace])
	for i := range list {
		list[i].CreatedAt = list[i].CreatedAt.UTC()
	}
	return list, err
}

// WorkspaceIDs returns the ids of all workspaces, in order.
func (l *Log) WorkspaceIDs(ctx context.Context) ([]string, error) {
	rows, err := l.pool.Query(ctx, `SELECT workspace_id FROM workspace ORDER BY workspace_id`)
	if err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	return ids, nil
}
