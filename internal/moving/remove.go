package moving

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// Finish removes the workspace's data from the old place, after checking that the new place has
// them. It keeps what is needed to refuse appends and to redirect readers: the workspace, its
// closed head, its keys (hashes), the move's row with the last position and its chain, and the
// audit trail. It can be interrupted and called again.
func (m *Mover) Finish(ctx context.Context) error {
	m.cfg.Step(StepBegin)
	r, err := rowAt(ctx, m, &m.cfg.From)
	if err != nil {
		return err
	}
	if r == nil || r.state != moved && r.state != removing && r.state != removed {
		return ErrNothing
	}
	m.id = r.id
	if r.state == removed {
		return nil
	}
	if err := prove(ctx, m, r); err != nil {
		return err
	}
	m.cfg.Step(StepRemove)
	if err := m.cfg.From.inTx(ctx, func(tx pgx.Tx) error {
		r, err := m.lockRow(ctx, tx)
		if err != nil {
			return err
		}
		if !m.is(r, moved, removing) {
			return ErrNothing
		}
		return m.set(ctx, tx, removing)
	}); err != nil {
		return err
	}
	if err := clearPlace(ctx, m, &m.cfg.From); err != nil {
		return err
	}
	return m.cfg.From.inTx(ctx, func(tx pgx.Tx) error { return m.set(ctx, tx, removed) })
}

// prove returns ErrUnproven unless the new place is open, whole, and has the log that left.
func prove(ctx context.Context, m *Mover, from *row) error {
	var chain []byte
	err := m.cfg.To.Pool.QueryRow(ctx, `
		SELECT CASE WHEN m.position = 0 THEN m.chain ELSE (SELECT e.chain FROM event_log e WHERE e.workspace_id = $1 AND e.position = m.position) END
		  FROM workspace_move m
		 WHERE m.workspace_id = $1 AND m.move_id = $2::uuid AND m.receiver::text = $3 AND m.state = 'complete' AND m.position = $4`,
		m.cfg.WorkspaceID, from.id, from.receiver, from.position).Scan(&chain)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && !bytes.Equal(chain, from.chain) {
		return ErrUnproven
	}
	if err != nil {
		return fmt.Errorf("compare the places of %s: %w", m.cfg.WorkspaceID, err)
	}
	return nil
}

// kept lists the tables that clearPlace does not empty with the others: the closed log, the audit
// trail, what belongs to no workspace, and the log's tables, which it clears separately.
func kept() []string {
	return []string{
		"workspace", "log_head", "workspace_move", "api_key", "api_key_secret", "producer", "producer_secret", "console_audit", "event_log", "log_detached", "log_checkpoint",
		"goose_db_version", "access_revision", "service_key", "service_setting", "secret_key", "ingest_position", "webhook_instance",
	}
}

// first lists the tables to clear before the others, because they refer to them.
func first() []string {
	return []string{"webhook_waiting", "webhook_cursor", "api_key_use"}
}

// clearPage is how many entries are removed in one transaction.
const clearPage = 5000

// clearPlace removes the data of a workspace whose head is closed for good.
func clearPlace(ctx context.Context, m *Mover, p *Place) error {
	// From here on, every process sees an empty log.
	err := p.inTx(ctx, func(tx pgx.Tx) error {
		return m.exec(ctx, tx,
			`UPDATE log_head SET position = 0, created_at = '-infinity', chain = sha256(convert_to($1, 'UTF8')) WHERE workspace_id = $1`,
			`DELETE FROM log_checkpoint WHERE workspace_id = $1`,
			`INSERT INTO log_checkpoint (workspace_id, consumer) VALUES ($1, 'read_models')`)
	})
	if err != nil {
		return err
	}
	tables := slices.DeleteFunc(migrations.Tables(), func(name string) bool { return slices.Contains(kept(), name) || slices.Contains(first(), name) })
	for _, name := range append(first(), tables...) {
		if err := p.inTx(ctx, func(tx pgx.Tx) error {
			return m.exec(ctx, tx, `DELETE FROM `+name+` WHERE workspace_id = $1`)
		}); err != nil {
			return err
		}
	}
	for {
		var n int64
		err := p.inTx(ctx, func(tx pgx.Tx) error {
			if err := pg.SetLocal(ctx, tx, "ledgerfeed.removes", m.cfg.WorkspaceID); err != nil {
				return fmt.Errorf("name the workspace whose log is removed: %w", err)
			}
			var through int64
			if err := tx.QueryRow(ctx, `
				SELECT coalesce(max(e.position), 0) FROM (SELECT e.position FROM event_log e WHERE e.workspace_id = $1 ORDER BY e.position LIMIT $2) AS e`,
				m.cfg.WorkspaceID, clearPage).Scan(&through); err != nil {
				return fmt.Errorf("look for entries of %s: %w", m.cfg.WorkspaceID, err)
			}
			if _, err := tx.Exec(ctx, `DELETE FROM log_detached WHERE workspace_id = $1 AND position <= $2`, m.cfg.WorkspaceID, through); err != nil {
				return fmt.Errorf("remove detached values of %s: %w", m.cfg.WorkspaceID, err)
			}
			tag, err := tx.Exec(ctx, `DELETE FROM event_log WHERE workspace_id = $1 AND position <= $2`, m.cfg.WorkspaceID, through)
			if err != nil {
				return fmt.Errorf("remove entries of %s: %w", m.cfg.WorkspaceID, err)
			}
			n = tag.RowsAffected()
			return nil
		})
		if err != nil || n == 0 {
			return err
		}
	}
}
