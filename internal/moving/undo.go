package moving

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// Undo cancels an unfinished move: the old place takes appends and delivers again, and what the new
// place has received is removed. It can be interrupted and called again. It returns ErrOpen if the
// new place is already open.
//
// Until the workspace has left the old place, the new place cannot open, so the old place's state
// alone decides. After that, Undo first closes the new place for good.
func (m *Mover) Undo(ctx context.Context) error {
	m.cfg.Step(StepBegin)
	r, err := rowAt(ctx, m, &m.cfg.From)
	if err != nil {
		return err
	}
	switch {
	case r == nil:
		return clearAbandoned(ctx, m)
	case r.state == removing, r.state == removed:
		return ErrOpen
	case r.state != copying && r.state != holding && r.state != fenced && r.state != moved:
		return ErrNothing
	}
	m.id = r.id
	if r.state == moved {
		if err := abandon(ctx, m, r, true); err != nil {
			return err
		}
	}
	if err := takeBack(ctx, m); err != nil {
		return err
	}
	if r.state != moved {
		if err := abandon(ctx, m, r, false); err != nil {
			return fmt.Errorf("the workspace is open again at the old place; what the new one has received is not removed: %w", err)
		}
	}
	return clearAbandoned(ctx, m)
}

// rowAt reads a place's row; nil: there is none.
func rowAt(ctx context.Context, m *Mover, p *Place) (r *row, err error) {
	err = p.inTx(ctx, func(tx pgx.Tx) error {
		r, err = m.lockRow(ctx, tx)
		return err
	})
	return r, err
}

// abandon closes the new place for good. With must, it returns ErrOther if the new place has no
// part in this move.
func abandon(ctx context.Context, m *Mover, from *row, must bool) error {
	return m.cfg.To.inTx(ctx, func(tx pgx.Tx) error {
		r, err := m.lockRow(ctx, tx)
		switch {
		case err != nil:
			return err
		case m.is(r, open, complete):
			return ErrOpen
		case m.is(r, abandoned):
			return nil
		case !m.is(r, receiving, ready) || r.receiver != from.receiver && from.receiver != "":
			if must {
				return ErrOther
			}
			return nil
		}
		return m.set(ctx, tx, abandoned)
	})
}

// takeBack opens the old place again, unless another process has continued the move meanwhile.
func takeBack(ctx context.Context, m *Mover) error {
	err := m.cfg.From.inTx(ctx, func(tx pgx.Tx) error {
		if err := m.exec(ctx, tx, `SELECT 1 FROM workspace WHERE workspace_id = $1 FOR UPDATE`); err != nil {
			return err
		}
		r, err := m.lockRow(ctx, tx)
		if err != nil {
			return err
		}
		if !m.is(r, copying, holding, fenced, moved) {
			return ErrNothing
		}
		if r.state == moved {
			// The workspace may have left since Undo looked: then the new place must be closed
			// first.
			if err := isAbandoned(ctx, m); err != nil {
				return err
			}
		}
		var before []byte
		if err := tx.QueryRow(ctx, `SELECT held FROM workspace_move WHERE workspace_id = $1`, m.cfg.WorkspaceID).Scan(&before); err != nil {
			return fmt.Errorf("read the states of webhooks of %s: %w", m.cfg.WorkspaceID, err)
		}
		if err := letGo(ctx, m, tx, before); err != nil {
			return err
		}
		if err := m.audit(ctx, tx, "the move to "+r.other+" was undone"); err != nil {
			return err
		}
		if err := m.exec(ctx, tx,
			`UPDATE webhook_mail SET next_attempt_at = now() WHERE workspace_id = $1 AND next_attempt_at = 'infinity'`,
			`UPDATE log_head SET closed_until = NULL WHERE workspace_id = $1`,
			`UPDATE workspace SET move = NULL, moved_to = NULL WHERE workspace_id = $1`,
			`DELETE FROM workspace_move WHERE workspace_id = $1`); err != nil {
			return err
		}
		return access.BumpRevision(ctx, tx, m.cfg.WorkspaceID)
	})
	if err != nil {
		return err
	}
	m.cfg.From.notify(eventlog.TopicProjected, m.cfg.WorkspaceID)
	return nil
}

// errLeft means that the workspace left while Undo was running.
var errLeft = errors.New("another process has gone on with the move meanwhile; run it with --undo again")

// isAbandoned returns errLeft unless the new place is closed for good.
func isAbandoned(ctx context.Context, m *Mover) error {
	var is bool
	err := m.cfg.To.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM workspace_move WHERE workspace_id = $1 AND move_id = $2::uuid AND state = 'abandoned')`,
		m.cfg.WorkspaceID, m.id).Scan(&is)
	if err != nil {
		return fmt.Errorf("look whether the new place of %s is closed: %w", m.cfg.WorkspaceID, err)
	}
	if !is {
		return errLeft
	}
	return nil
}

// clearAbandoned removes what the new place has received in a move that was undone.
func clearAbandoned(ctx context.Context, m *Mover) error {
	r, err := rowAt(ctx, m, &m.cfg.To)
	switch {
	case err != nil:
		return err
	case r == nil && m.id != "":
		return nil
	case r == nil || r.state != abandoned || r.other != m.cfg.From.Name:
		if m.id != "" {
			return nil
		}
		return ErrNothing
	}
	if err := clearPlace(ctx, m, &m.cfg.To); err != nil {
		return err
	}
	// The closed log stays. Otherwise a producer that was told of the move, and appends there,
	// would create the workspace again.
	return m.cfg.To.inTx(ctx, func(tx pgx.Tx) error {
		if err := m.exec(ctx, tx, `UPDATE workspace SET move = 'moved', moved_to = NULL WHERE workspace_id = $1`); err != nil {
			return err
		}
		return m.set(ctx, tx, removed)
	})
}
