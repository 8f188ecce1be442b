package check

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/rowcheck"
)

// Fold returns the state of each workspace, folded in memory from position 1. It
// shares nothing with what projects, verifies and rebuilds the read tables but the
// rules of each type of entry, which tests of package domain hold against a second
// fold of their own.
func (l *Log) Fold() map[string]*domain.State {
	states := map[string]*domain.State{}
	for w, entries := range l.Entries {
		states[w] = domain.NewState()
		for i := range entries {
			e := entries[i] // Apply keeps what it decodes in the entry
			states[w].Apply(&e)
		}
	}
	return states
}

// CompareReadModels compares, in one snapshot, the read tables of every workspace with
// a fold of its log up to its checkpoint. It returns how many rows it compared.
func CompareReadModels(ctx context.Context, conn *pgx.Conn, when string, f *Findings) (rows int, err error) {
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		list, err := tx.Query(ctx, `SELECT workspace_id, position FROM log_checkpoint WHERE consumer = 'read_models'`)
		if err != nil {
			return fmt.Errorf("read the checkpoints: %w", err)
		}
		type checkpoint struct {
			WorkspaceID string
			Position    int64
		}
		checkpoints, err := pgx.CollectRows(list, pgx.RowToStructByPos[checkpoint])
		if err != nil {
			return fmt.Errorf("read the checkpoints: %w", err)
		}
		for _, c := range checkpoints {
			state, err := foldThrough(ctx, tx, c.WorkspaceID, c.Position)
			if err != nil {
				return err
			}
			stored, err := rowcheck.Stored(ctx, tx, c.WorkspaceID)
			if err != nil {
				return err
			}
			rows += len(stored)
			for _, line := range rowcheck.Diff(stored, rowcheck.Folded(state), mostOfRule) {
				f.Add(RuleReadModels, "%s, %s at position %d: %s", when, c.WorkspaceID, c.Position, line)
			}
		}
		return nil
	})
	if err != nil {
		return rows, fmt.Errorf("cannot compare the read models: %w", err)
	}
	return rows, nil
}

func foldThrough(ctx context.Context, tx pgx.Tx, workspaceID string, through int64) (*domain.State, error) {
	rows, err := tx.Query(ctx, `
		SELECT e.position, e.id, e.type, e.created_at, e.data::text, coalesce(d.value, '')
		  FROM event_log e LEFT JOIN log_detached d USING (workspace_id, position)
		 WHERE e.workspace_id = $1 AND e.position <= $2 ORDER BY e.position`, workspaceID, through)
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	state := domain.NewState()
	var read domain.Entry
	_, err = pgx.ForEachRow(rows, []any{&read.Position, &read.ID, &read.Type, &read.CreatedAt, &read.Data, &read.Value}, func() error {
		e := domain.Entry{WorkspaceID: workspaceID, Position: read.Position, ID: read.ID, Type: read.Type, CreatedAt: read.CreatedAt, Data: read.Data, Value: read.Value}
		state.Apply(&e)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	return state, nil
}
