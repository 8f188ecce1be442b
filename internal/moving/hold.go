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
		if err := noteHeld(ctx, m, tx, `
			SELECT jsonb_object_agg(w.webhook_id, CASE WHEN `+held+` THEN m.held -> w.webhook_id
			       ELSE jsonb_build_object('state', w.state, 'before', w.epoch, 'paused_at', w.paused_at) END)`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, holdSQL, m.cfg.WorkspaceID, m.now()); err != nil {
			return fmt.Errorf("hold the webhooks of %s: %w", m.cfg.WorkspaceID, err)
		}
		if err := noteHeld(ctx, m, tx, `
			SELECT jsonb_object_agg(w.webhook_id, (m.held -> w.webhook_id) || jsonb_build_object('epoch', w.epoch))`); err != nil {
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

// noteHeld notes what is selected of the webhooks w, of which m is the move. What a cluster
// has on every node is not changed by what is on one.
func noteHeld(ctx context.Context, m *Mover, tx pgx.Tx, selected string) error {
	var noted []byte
	err := tx.QueryRow(ctx, selected+`
		  FROM webhook w JOIN workspace_move m ON m.workspace_id = w.workspace_id WHERE w.workspace_id = $1`, m.cfg.WorkspaceID).Scan(&noted)
	if err == nil {
		_, err = tx.Exec(ctx, `
			UPDATE workspace_move SET state = 'holding', changed_at = $2, held = coalesce($3::jsonb, '{}') WHERE workspace_id = $1`,
			m.cfg.WorkspaceID, m.now(), noted)
	}
	if err != nil {
		return fmt.Errorf("note the webhooks of %s: %w", m.cfg.WorkspaceID, err)
	}
	return nil
}

// querier is a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// countTaken counts the webhooks that a living process holds. On a cluster the processes are
// on another node than webhooks, so they are looked up first.
func countTaken(ctx context.Context, m *Mover, db querier) (taken int, err error) {
	var living []string
	err = db.QueryRow(ctx, `
		SELECT coalesce(array_agg(instance_id::text), '{}') FROM webhook_instance WHERE workspace_id = '*' AND lease_until > clock_timestamp()`).Scan(&living)
	if err == nil {
		err = db.QueryRow(ctx, `SELECT count(*) FROM webhook_cursor WHERE workspace_id = $1 AND holder::text = ANY ($2)`, m.cfg.WorkspaceID, living).Scan(&taken)
	}
	if err != nil {
		return 0, fmt.Errorf("look who delivers to webhooks of %s: %w", m.cfg.WorkspaceID, err)
	}
	return taken, nil
}

// awaitFree waits until no process holds a webhook: what was under way is recorded.
func awaitFree(ctx context.Context, m *Mover) error {
	for began := time.Now(); ; {
		taken, err := countTaken(ctx, m, m.cfg.From.Pool)
		if err != nil {
			return err
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

// heldWebhook is what a webhook was before it was held.
type heldWebhook struct {
	ID            string
	State         string
	PausedAt      *time.Time
	Before, Epoch *int32 // of the webhook, before it was held and since
}

// letGo gives webhooks, in tx of either place, the states back that they had before they
// were held. What is pending goes on; the epoch does not go back.
func letGo(ctx context.Context, m *Mover, tx pgx.Tx, before []byte) error {
	// A cluster reads no times from texts in statements that change its rows.
	rows, err := tx.Query(ctx, `
		SELECT key, value ->> 'state', (value ->> 'paused_at')::timestamptz, (value ->> 'before')::integer, (value ->> 'epoch')::integer
		  FROM jsonb_each($1::jsonb)`, before)
	if err != nil {
		return fmt.Errorf("read how the webhooks of %s were: %w", m.cfg.WorkspaceID, err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[heldWebhook])
	if err != nil {
		return fmt.Errorf("read how the webhooks of %s were: %w", m.cfg.WorkspaceID, err)
	}
	b := &pgx.Batch{}
	for _, was := range list {
		b.Queue(`
			UPDATE webhook SET state = $3, paused_at = $4, version = version + 1
			 WHERE workspace_id = $1 AND webhook_id = $2 AND state = 'paused'`, m.cfg.WorkspaceID, was.ID, was.State, was.PausedAt)
		if was.State != "on" {
			// Only what has the webhook's own epoch is sent while it is off or paused.
			b.Queue(`
				UPDATE webhook_waiting SET epoch = $3
				 WHERE workspace_id = $1 AND webhook_id = $2 AND once AND epoch = $4`, m.cfg.WorkspaceID, was.ID, was.Epoch, was.Before)
		}
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("let the webhooks of %s go: %w", m.cfg.WorkspaceID, err)
	}
	return nil
}
