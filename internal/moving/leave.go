package moving

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// fence makes the old place refuse appends for Config.Fence, and returns its newest entry. If the
// move has not continued by then, the old place takes appends again on its own.
func (m *Mover) fence(ctx context.Context) (h head, err error) {
	m.cfg.Step(StepFence)
	err = m.cfg.From.inLimitedTx(ctx, func(tx pgx.Tx) error {
		locked, err := lockHead(ctx, m, tx)
		if err != nil {
			return err
		}
		h = locked.head
		r, err := m.lockRow(ctx, tx)
		if err != nil {
			return err
		}
		if !m.is(r, holding, fenced) {
			return ErrUndone
		}
		if _, err := tx.Exec(ctx, `UPDATE log_head SET closed_until = $2 WHERE workspace_id = $1`, m.cfg.WorkspaceID, locked.at.Add(m.cfg.Fence)); err != nil {
			return fmt.Errorf("close the head of %s: %w", m.cfg.WorkspaceID, err)
		}
		// fenced_at starts over: appends that an earlier, unsuccessful fence refused do not count.
		_, err = tx.Exec(ctx, `UPDATE workspace_move SET state = 'fenced', changed_at = $2, fenced_at = $2 WHERE workspace_id = $1`, m.cfg.WorkspaceID, locked.at)
		if err != nil {
			return fmt.Errorf("note that %s is fenced: %w", m.cfg.WorkspaceID, err)
		}
		return nil
	})
	return h, err
}

// prepare records at the new place that it has everything up to the newest entry.
func (m *Mover) prepare(ctx context.Context, newest head) error {
	m.cfg.Step(StepReady)
	return m.cfg.To.inTx(ctx, func(tx pgx.Tx) error {
		r, err := m.lockRow(ctx, tx)
		if err != nil {
			return err
		}
		if !m.is(r, receiving, ready) {
			return ErrUndone
		}
		if err := lockSameHead(ctx, m, tx, newest); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE workspace_move SET position = $2, chain = $3 WHERE workspace_id = $1`, m.cfg.WorkspaceID, newest.position, newest.chain)
		if err != nil {
			return fmt.Errorf("note the newest entry of %s: %w", m.cfg.WorkspaceID, err)
		}
		return m.set(ctx, tx, ready)
	})
}

// depart gives the workspace up at the old place, for good unless the move is undone before the new
// place opens. From here on, nothing of the workspace changes there. It returns errFenceOver if
// entries may have been appended since newest, or a process has taken up a webhook.
func (m *Mover) depart(ctx context.Context, newest head) error {
	m.cfg.Step(StepDepart)
	return m.cfg.From.inLimitedTx(ctx, func(tx pgx.Tx) error {
		// Every transaction that changes a key, a webhook or a name locks the workspace or the row,
		// so these locks wait for it.
		if err := m.exec(ctx, tx, `SELECT 1 FROM workspace WHERE workspace_id = $1 FOR UPDATE`,
			`SELECT 1 FROM api_key WHERE workspace_id = $1 ORDER BY key_id FOR UPDATE`,
			`SELECT 1 FROM producer WHERE workspace_id = $1 ORDER BY producer_id FOR UPDATE`,
			`SELECT 1 FROM webhook WHERE workspace_id = $1 ORDER BY webhook_id FOR UPDATE`,
			`SELECT 1 FROM webhook_cursor WHERE workspace_id = $1 ORDER BY webhook_id FOR UPDATE`); err != nil {
			return err
		}
		h, err := lockHead(ctx, m, tx)
		if err != nil {
			return err
		}
		r, err := m.lockRow(ctx, tx)
		if err != nil {
			return err
		}
		if !m.is(r, fenced, holding) {
			return ErrUndone
		}
		free, err := free(ctx, m, tx)
		if err != nil {
			return err
		}
		if !h.closed() || !free || r.state != fenced || !h.equal(newest) {
			return errFenceOver
		}
		if _, err := tx.Exec(ctx, `
			UPDATE workspace_move SET state = 'moved', changed_at = $2, position = $3, chain = $4 WHERE workspace_id = $1`,
			m.cfg.WorkspaceID, m.now(), h.position, h.chain); err != nil {
			return fmt.Errorf("note that %s has moved: %w", m.cfg.WorkspaceID, err)
		}
		if err := m.audit(ctx, tx, fmt.Sprintf("left for %s at position %d", m.cfg.To.Name, h.position)); err != nil {
			return err
		}
		if err := m.exec(ctx, tx,
			`UPDATE log_head SET closed_until = 'infinity' WHERE workspace_id = $1`,
			`UPDATE workspace SET move = 'moved', moved_to = NULL WHERE workspace_id = $1`,
			`UPDATE webhook_mail SET next_attempt_at = 'infinity' WHERE workspace_id = $1`); err != nil {
			return err
		}
		return access.BumpRevision(ctx, tx, m.cfg.WorkspaceID)
	})
}

// free reports whether the move holds all webhooks, and no live process has one of them.
func free(ctx context.Context, m *Mover, tx pgx.Tx) (bool, error) {
	var b pgx.Batch
	var notHeld, taken int
	b.Queue(`SELECT count(*) FROM webhook w WHERE w.workspace_id = $1 AND NOT (`+held+`)`, m.cfg.WorkspaceID).
		QueryRow(func(row pgx.Row) error { return row.Scan(&notHeld) })
	b.Queue(takenSQL, m.cfg.WorkspaceID).QueryRow(func(row pgx.Row) error { return row.Scan(&taken) })
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return false, fmt.Errorf("look whether the webhooks of %s are held: %w", m.cfg.WorkspaceID, err)
	}
	return notHeld == 0 && taken == 0, nil
}

// tell makes the old place tell readers the new place's address. It is called once the new place is
// open: before that, the new place lacks the readers' keys and would refuse them.
func tell(ctx context.Context, m *Mover) error {
	return m.cfg.From.inLimitedTx(ctx, func(tx pgx.Tx) error {
		err := m.exec(ctx, tx, `
			UPDATE workspace w SET moved_to = m.public_address FROM workspace_move m
			 WHERE w.workspace_id = $1 AND m.workspace_id = w.workspace_id AND w.move = 'moved' AND m.state = 'moved'`)
		if err != nil {
			return err
		}
		return access.BumpRevision(ctx, tx, m.cfg.WorkspaceID)
	})
}
