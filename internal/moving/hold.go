package moving

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// A move holds deliveries by pausing webhooks, as a person does. Every process that delivers
// understands that: it finishes the attempts in flight, records them and releases the webhook. The
// epoch rises as well, so that a delivery that a person sends again waits even if its webhook is
// off or paused.

// lockTimeout is how long a step at the old place waits for rows that other transactions
// have locked.
const lockTimeout = 5 * time.Second

// holdSQL pauses the webhooks of a workspace that are not held already.
const holdSQL = `
	UPDATE webhook w SET state = 'paused', paused_at = coalesce(w.paused_at, $2), version = w.version + 1,
	       epoch = w.epoch + 1, pause_epoch = w.epoch + 1, kept_epoch = ` + dispatch.KeptEpoch + `
	 WHERE w.workspace_id = $1 AND NOT (` + held + `)`

// held is an SQL condition on a webhook w: the move holds it, and nobody has changed its state or
// epoch since.
const held = `w.state = 'paused' AND w.epoch = w.pause_epoch AND coalesce((
	SELECT (m.held -> w.webhook_id ->> 'epoch')::integer FROM workspace_move m WHERE m.workspace_id = $1), -1) = w.epoch`

// before selects, as JSON, the states that a workspace's webhooks had before they were first held.
// epochs adds the epochs that they have since. Both read what noteHeld then overwrites.
const (
	before = `
		SELECT coalesce(jsonb_object_agg(w.webhook_id, CASE WHEN ` + held + ` THEN (SELECT m.held -> w.webhook_id FROM workspace_move m WHERE m.workspace_id = $1)
		       ELSE jsonb_build_object('state', w.state, 'before', w.epoch, 'paused_at', w.paused_at) END), '{}')
		  FROM webhook w WHERE w.workspace_id = $1`
	epochs = `
		SELECT coalesce(jsonb_object_agg(w.webhook_id, (m.held -> w.webhook_id) || jsonb_build_object('epoch', w.epoch)), '{}')
		  FROM webhook w JOIN workspace_move m ON m.workspace_id = w.workspace_id WHERE w.workspace_id = $1`
)

// hold makes the processes at the old place release its webhooks, and waits until they have.
func (m *Mover) hold(ctx context.Context) error {
	m.cfg.Step(StepHold)
	err := m.cfg.From.inLimitedTx(ctx, func(tx pgx.Tx) error {
		if err := m.exec(ctx, tx, `SELECT 1 FROM workspace WHERE workspace_id = $1 FOR UPDATE`,
			`SELECT 1 FROM webhook WHERE workspace_id = $1 ORDER BY webhook_id FOR UPDATE`); err != nil {
			return err
		}
		r, err := m.lockRow(ctx, tx)
		if err != nil {
			return err
		}
		if !m.is(r, copying, holding, fenced) {
			return ErrUndone
		}
		if err := noteHeld(ctx, m, tx, before); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, holdSQL, m.cfg.WorkspaceID, m.now()); err != nil {
			return fmt.Errorf("hold the webhooks of %s: %w", m.cfg.WorkspaceID, err)
		}
		if err := noteHeld(ctx, m, tx, epochs); err != nil {
			return err
		}
		if err := m.set(ctx, tx, holding); err != nil {
			return err
		}
		return m.exec(ctx, tx, `UPDATE workspace SET move = 'holding' WHERE workspace_id = $1`)
	})
	if err != nil {
		return err
	}
	m.cfg.From.notify(eventlog.TopicProjected, m.cfg.WorkspaceID)
	return awaitFree(ctx, m)
}

// noteHeld stores a query's result as the move's list of held webhooks.
func noteHeld(ctx context.Context, m *Mover, tx pgx.Tx, query string) error {
	var list []byte
	err := tx.QueryRow(ctx, query, m.cfg.WorkspaceID).Scan(&list)
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE workspace_move SET held = $2 WHERE workspace_id = $1`, m.cfg.WorkspaceID, list)
	}
	if err != nil {
		return fmt.Errorf("note the webhooks of %s: %w", m.cfg.WorkspaceID, err)
	}
	return nil
}

// takenSQL counts the webhooks that a live process holds. It reads the holders first, then the
// leases.
const takenSQL = `
	WITH c AS MATERIALIZED (SELECT holder FROM webhook_cursor WHERE workspace_id = $1 AND holder IS NOT NULL)
	SELECT count(*) FROM c JOIN webhook_instance i ON i.instance_id = c.holder WHERE i.workspace_id = '*' AND i.lease_until > clock_timestamp()`

// awaitFree waits until no process holds a webhook. Attempts that were in flight are then recorded.
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
			return &IdleError{Place: m.cfg.From.Name, Waits: "the processes that deliver to give back " + texts.Count(taken, "webhook", "webhooks")}
		}
		if !flow.Sleep(ctx, lookEvery) {
			return context.Cause(ctx)
		}
	}
}

// letGo restores the states that webhooks had before they were held. tx may be at either place.
// Pending deliveries continue; the epoch does not go back.
func letGo(ctx context.Context, m *Mover, tx pgx.Tx, before []byte) error {
	_, err := tx.Exec(ctx, `
		UPDATE webhook w SET state = h.state, paused_at = h.paused_at, version = w.version + 1
		  FROM jsonb_each($2::jsonb) AS e CROSS JOIN LATERAL jsonb_to_record(e.value) AS h (state text, paused_at timestamptz)
		 WHERE w.workspace_id = $1 AND w.webhook_id = e.key AND w.state = 'paused'`, m.cfg.WorkspaceID, before)
	if err != nil {
		return fmt.Errorf("let the webhooks of %s go: %w", m.cfg.WorkspaceID, err)
	}
	// While a webhook is off or paused, only deliveries with its present epoch are sent.
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
