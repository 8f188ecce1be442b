package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// RecoverChunk is the most deliveries that one statement makes due.
const RecoverChunk = 1000

// Window is a part of a webhook's deliveries, by the positions of their events.
type Window struct {
	WorkspaceID, WebhookID string
	After, To              int64 // positions above After, up to To
}

// windowSQL is an SQL condition: row q of a webhook's deliveries is in the window of $1 to $4. The range
// of one webhook makes the index of the primary key fit, whatever the statistics say.
const windowSQL = `q.workspace_id = $1 AND q.webhook_id BETWEEN $2 AND $2 AND q.position > $3 AND q.position <= $4`

// unsentSQL is an SQL condition: q is a delivery of an event, no newer one of it, that ended without
// success since $5.
const unsentSQL = windowSQL + ` AND q.created_at > $5 AND q.state IN ('failed', 'cancelled') AND q.event_type <> 'test.ping'
	AND NOT EXISTS (SELECT FROM webhook_delivery n WHERE n.workspace_id = $1 AND n.webhook_id = $2 AND n.position = q.position AND n.created_at > q.created_at)`

// pendingSQL is an SQL condition: q is pending for webhook w, and not outdated.
const pendingSQL = windowSQL + ` AND w.workspace_id = $1 AND w.webhook_id = $2 AND q.epoch >= ` + KeptEpoch

// Count returns how many deliveries of the window are pending, and how many have ended without success
// after a time.
func (r *Window) Count(ctx context.Context, tx pgx.Tx, kept time.Time) (pending, failed int64, err error) {
	err = tx.QueryRow(ctx, `SELECT count(*) FROM webhook_waiting q, webhook w WHERE `+pendingSQL, r.WorkspaceID, r.WebhookID, r.After, r.To).Scan(&pending)
	if err != nil {
		return 0, 0, fmt.Errorf("count what is pending for %s: %w", r.WebhookID, err)
	}
	err = tx.QueryRow(ctx, `SELECT count(*) FROM webhook_delivery q WHERE `+unsentSQL, r.WorkspaceID, r.WebhookID, r.After, r.To, kept).Scan(&failed)
	if err != nil {
		return 0, 0, fmt.Errorf("count what failed to %s: %w", r.WebhookID, err)
	}
	return pending, failed, nil
}

// CountFailed counts what has ended without success after a time, as Count does, and finds the oldest
// position of it. It examines the newest failed and cancelled deliveries, up to most of each; more reports
// whether there may be others.
func (r *Window) CountFailed(ctx context.Context, tx pgx.Tx, kept time.Time, most int) (failed, oldest int64, more bool, err error) {
	// One statement for each state: the index of what has not succeeded has the state before the time.
	// Newer deliveries of an event are looked for within a day, because the table has a partition for each
	// day: an event gets a second one only from a process that made it at the same time.
	const newest = `(SELECT d.workspace_id, d.webhook_id, d.position, d.created_at, d.event_type FROM webhook_delivery d
		  WHERE d.workspace_id = $1 AND d.webhook_id = $2 AND d.created_at > $5 AND d.state = '%s' AND d.state <> 'succeeded'
		  ORDER BY d.created_at DESC, d.position DESC LIMIT $6)`
	err = tx.QueryRow(ctx, `
		WITH q AS MATERIALIZED (`+fmt.Sprintf(newest, "failed")+` UNION ALL `+fmt.Sprintf(newest, "cancelled")+`), lost AS (
			SELECT q.position FROM q WHERE q.position > $3 AND q.position <= $4 AND q.event_type <> 'test.ping'
			   AND NOT EXISTS (SELECT FROM webhook_delivery n
			                    WHERE n.workspace_id = q.workspace_id AND n.webhook_id = q.webhook_id AND n.position = q.position
			                      AND n.created_at > q.created_at AND n.created_at < q.created_at + interval '1 day'))
		SELECT count(*), coalesce(min(position), 0), (SELECT count(*) >= $6 FROM q) FROM lost`,
		r.WorkspaceID, r.WebhookID, r.After, r.To, kept, most).Scan(&failed, &oldest, &more)
	if err != nil {
		return 0, 0, false, fmt.Errorf("count what failed to %s: %w", r.WebhookID, err)
	}
	return failed, oldest, more, nil
}

// dueAt is the SQL of when a delivery becomes due: now, which is $6, or before, so that the oldest event
// comes first.
const dueAt = `$6::timestamptz - least($4 - c.position, 3600000000) * interval '1 microsecond'`

// MakePendingDue makes up to RecoverChunk pending deliveries of the window due now, and returns how many.
// With free the attempt is one more than those of the retry schedule; otherwise it takes the
// place of the next one. It reads only deliveries that are not due yet, so it stays cheap for a receiver
// that keeps failing and recovering.
func (r *Window) MakePendingDue(ctx context.Context, tx pgx.Tx, now time.Time, free bool) (n int, err error) {
	n, _, err = r.run(ctx, tx, "make what is pending due", `
		WITH chosen AS MATERIALIZED (
			SELECT q.workspace_id, q.webhook_id, q.position, q.created_at FROM webhook_waiting q, webhook w
			 WHERE q.workspace_id = $1 AND `+pendingSQL+` AND q.next_attempt_at > $6
			 ORDER BY q.webhook_id, q.next_attempt_at LIMIT $5 FOR UPDATE OF q
		), due AS (
			UPDATE webhook_waiting q SET next_attempt_at = `+dueAt+`, before = CASE WHEN $7 AND q.attempts < 30 THEN q.before + 1 ELSE q.before END
			  FROM chosen c
			 WHERE q.workspace_id = c.workspace_id AND q.webhook_id = c.webhook_id AND q.position = c.position
			RETURNING q.workspace_id, q.webhook_id, q.position, q.created_at, q.next_attempt_at
		), shown AS (
			UPDATE webhook_delivery d SET next_attempt_at = c.next_attempt_at FROM due c
			 WHERE d.workspace_id = c.workspace_id AND d.webhook_id = c.webhook_id AND d.position = c.position AND d.created_at = c.created_at AND d.state = 'pending'
		)
		SELECT count(*), max(position) FROM chosen`, RecoverChunk, now, free)
	return n, err
}

// SendFailed makes up to RecoverChunk deliveries of the window that ended without success after a time
// pending and due now, with the retry schedule from its start. It returns how many, and narrows the window
// to the rest.
func (r *Window) SendFailed(ctx context.Context, tx pgx.Tx, now, kept time.Time) (n int, err error) {
	n, last, err := r.run(ctx, tx, "send what failed again", `
		WITH chosen AS MATERIALIZED (
			SELECT q.workspace_id, q.webhook_id, q.position, q.created_at, jsonb_array_length(q.attempts) AS made FROM webhook_delivery q
			 WHERE `+unsentSQL+` ORDER BY q.webhook_id, q.position LIMIT $7
		), new AS MATERIALIZED (
			SELECT c.workspace_id, c.webhook_id, c.position, c.created_at, c.made, c.made, `+dueAt+`, false, w.epoch
			  FROM chosen c JOIN webhook w ON w.workspace_id = c.workspace_id AND w.webhook_id = c.webhook_id
		), waiting AS (
			INSERT INTO webhook_waiting (workspace_id, webhook_id, position, created_at, attempts, before, next_attempt_at, once, epoch)
			SELECT * FROM new
			    ON CONFLICT (workspace_id, webhook_id, position) DO NOTHING
			RETURNING workspace_id, webhook_id, position, created_at, next_attempt_at
		), again AS (
			UPDATE webhook_delivery d SET state = 'pending', next_attempt_at = c.next_attempt_at FROM waiting c
			 WHERE d.workspace_id = c.workspace_id AND d.webhook_id = c.webhook_id AND d.position = c.position AND d.created_at = c.created_at
		)
		SELECT count(*), max(position) FROM chosen`, kept, now, RecoverChunk)
	if last != nil {
		r.After = *last
	}
	return n, err
}

// run runs a statement on rows of the window. It returns how many they were, and the last position.
func (r *Window) run(ctx context.Context, tx pgx.Tx, what, sql string, more ...any) (n int, last *int64, err error) {
	err = tx.QueryRow(ctx, sql, append([]any{r.WorkspaceID, r.WebhookID, r.After, r.To}, more...)...).Scan(&n, &last)
	if err != nil {
		return 0, nil, fmt.Errorf("%s, webhook %s: %w", what, r.WebhookID, err)
	}
	return n, last, nil
}

// recover makes everything that is pending for a webhook due, because its receiver works again.
func (d *Dispatcher) recover(ctx context.Context, c *scheduler.HealthChange) error {
	r := &Window{WorkspaceID: c.Key.WorkspaceID, WebhookID: c.Key.WebhookID}
	if err := d.store.pool.QueryRow(ctx, `SELECT position FROM log_head WHERE workspace_id = $1`, r.WorkspaceID).Scan(&r.To); err != nil {
		return fmt.Errorf("read the head of %s: %w", r.WorkspaceID, err)
	}
	due := 0
	for n := RecoverChunk; n == RecoverChunk; due += n {
		err := pg.InLimitedTx(ctx, d.store.pool, lockTimeout, func(tx pgx.Tx) (err error) {
			n, err = r.MakePendingDue(ctx, tx, d.clock(), true)
			return err
		})
		if err != nil {
			return err
		}
	}
	if due > 0 {
		d.logger.InfoContext(ctx, "a webhook works again; what waits for it is sent now", "messages", due, "workspace", c.Key.WorkspaceID, "webhook", c.Key.WebhookID, "host", c.Endpoint.URL.Host)
	}
	// It keeps a connection while it waits for a lock, so it does not wait long.
	err := d.store.limited(ctx, `
		UPDATE webhook SET failures = failures - 'recovered'
		 WHERE workspace_id = $1 AND webhook_id = $2 AND failures -> 'recovered' = to_jsonb($3::bigint)`, r.WorkspaceID, r.WebhookID, c.At.UnixMilli())
	if err != nil {
		return fmt.Errorf("note that %s has recovered: %w", r.WebhookID, err)
	}
	return nil
}
