package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// EntryAt returns the entry at a position; nil when there is none.
func (l *Log) EntryAt(ctx context.Context, workspaceID string, position int64) (*domain.Entry, error) {
	entries, err := l.Read(ctx, workspaceID, position-1, 1)
	if err != nil || len(entries) == 0 || entries[0].Position != position {
		return nil, err
	}
	return &entries[0], nil
}

// PositionOf returns the position of the entry with an id; 0 when the
// workspace has none.
func (l *Log) PositionOf(ctx context.Context, workspaceID, id string) (position int64, err error) {
	err = l.pool.QueryRow(ctx, `SELECT position FROM event_log WHERE workspace_id = $1 AND id = $2`, workspaceID, id).Scan(&position)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("find the entry %s of %s: %w", id, workspaceID, err)
	}
	return position, nil
}
