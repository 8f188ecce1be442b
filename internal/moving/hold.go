package moving

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Deliveries are held as a person pauses webhooks, which every process that delivers
// understands: it ends the attempts that are under way, records them, and gives the webhook
// back. The epoch rises, so that a delivery which a person sends again to a webhook that is
// off or paused waits as well.

// lockTimeout is how long a step at the old place waits for rows that other transactions
// have locked.
const lockTimeout = 5 * time.Second

// holdSQL pauses the webhooks of a workspace that are not held already.
const holdSQL = `
	UPDATE webhook w SET state = 'paused', paused_at = coalesce(w.paused_at, $2), version = w.version + 1,
	       epoch = w.epoch + 1, pause_epoch = w.epoch + 1, kept_epoch = ` + dispatch.KeptEpoch + `
	 WHERE w.workspace_id = $1 AND NOT (` + held + `)`

// held is true of a webhook w that is held: nobody has changed its state or epoch since.
const held = `w.state = 'paused' AND w.epoch = w.pause_epoch AND coalesce((
	SELECT (m.held -> w.webhook_id ->> 'epoch')::integer FROM workspace_move m WHERE m.workspace_id = w.workspace_id), -1) = w.epoch`

// hold has the processes at the old place give its webhooks back, and waits for that.
func (m *Mover) hold(ctx context.Context) error {
	m.cfg.Step(StepHold)
	err := pg.InLimitedTx(ctx, m.cfg.From.Pool, lockTimeout, func(tx pgx.Tx) error {
		if err := m.exec(ctx, tx, `SELECT FROM workspace WHERE workspace_id = $1 FOR UPDATE`,
			`SELECT FROM webhook WHERE workspace_id = $1 ORDER BY webhook_id FOR UPDATE`); err != nil {
			return err
		}
		r, err := m.lockRow(ctx, tx)
		if err != nil {
			return err
		}
		if !m.is(r, copying, holding, fenced) {
			return ErrUndone
		}
		// What they were before they were first held; and then the epochs that they have.
		if _, err := tx.Exec(ctx, `
			UPDATE workspace_move m SET state = 'holding', changed_at = $2, held = coalesce((
			       SELECT jsonb_object_agg(w.webhook_id, CASE WHEN `+held+` THEN m.held -> w.webhook_id
			              ELSE jsonb_build_object('state', w.state, 'before', w.epoch, 'paused_at', w.paused_at) END)
			         FROM webhook w WHERE w.workspace_id = $1), '{}')
			 WHERE m.workspace_id = $1`, m.cfg.WorkspaceID, m.now()); err != nil {
			return fmt.Errorf("note the webhooks of %s: %w", m.cfg.WorkspaceID, err)
		}
		if _, err := tx.Exec(ctx, holdSQL, m.cfg.WorkspaceID, m.now()); err != nil {
			return fmt.Errorf("hold the webhooks of %s: %w", m.cfg.WorkspaceID, err)
		}
		return m.exec(ctx, tx, `
			UPDATE workspace_move m SET held = coalesce((
			       SELECT jsonb_object_agg(w.webhook_id, (m.held -> w.webhook_id) || jsonb_build_object('epoch', w.epoch))
			         FROM webhook w WHERE w.workspace_id = $1), '{}')
			 WHERE m.workspace_id = $1`,
			`UPDATE workspace SET move = 'holding' WHERE workspace_id = $1`)
	})
	if err != nil {
		return err
	}
	m.cfg.From.notify(eventlog.TopicProjected, m.cfg.WorkspaceID)
	return awaitFree(ctx, m)
}

// takenSQL counts the webhooks that a living process holds.
const takenSQL = `
	SELECT count(*) FROM webhook_cursor c
	 WHERE c.workspace_id = $1 AND c.holder IS NOT NULL
	   AND EXISTS (SELECT FROM webhook_instance i WHERE i.workspace_id = '*' AND i.instance_id = c.holder AND i.lease_until > clock_timestamp())`

// awaitFree waits until no process holds a webhook: what was under way is recorded.
func awaitFree(ctx context.Context, m *Mover) error {
	for began := time.Now(); ; {
		var taken int
		if err := m.cfg.From.Pool.QueryRow(ctx, takenSQL, m.cfg.WorkspaceID).Scan(&taken); err != nil {
			return fmt.Errorf("look who delivers to webhooks of %s: %w", m.cfg.WorkspaceID, err)
		}
		if taken == 0 {
			return nil
		}
		if time.Since(began) > m.cfg.Idle {
			return &IdleError{Place: m.cfg.From.Name, Waits: fmt.Sprintf("the processes that deliver to give back %d webhooks", taken)}
		}
		if !flow.Pause(ctx, lookEvery) {
			return context.Cause(ctx)
		}
	}
}

// letGo gives webhooks, in tx of either place, the states back that they had before they
// were held. What is pending goes on; the epoch does not go back.
func letGo(ctx context.Context, m *Mover, tx pgx.Tx, before []byte) error {
	_, err := tx.Exec(ctx, `
		UPDATE webhook w SET state = h.value ->> 'state', paused_at = (h.value ->> 'paused_at')::timestamptz, version = w.version + 1
		  FROM jsonb_each($2::jsonb) AS h
		 WHERE w.workspace_id = $1 AND w.webhook_id = h.key AND w.state = 'paused'`, m.cfg.WorkspaceID, before)
	if err != nil {
		return fmt.Errorf("let the webhooks of %s go: %w", m.cfg.WorkspaceID, err)
	}
	// Only what has the webhook's own epoch is sent while it is off or paused.
	_, err = tx.Exec(ctx, `
		UPDATE webhook_waiting q SET epoch = (h.value ->> 'epoch')::integer
		  FROM jsonb_each($2::jsonb) AS h
		 WHERE q.workspace_id = $1 AND q.webhook_id = h.key AND h.value ->> 'state' <> 'on' AND q.once AND q.epoch = (h.value ->> 'before')::integer`,
		m.cfg.WorkspaceID, before)
	if err != nil {
		return fmt.Errorf("let what is sent again to webhooks of %s go: %w", m.cfg.WorkspaceID, err)
	}
	return nil
}
