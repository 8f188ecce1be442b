package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
)

// A user pauses a webhook while its receiver is being repaired or moved. Nothing is then sent
// automatically, and everything stays where it is: the cursor, missed events still to be sent, and
// pending deliveries. Resuming continues from there.

// Paused reports whether the webhook is paused.
func (w *Webhook) Paused() bool { return !w.PausedAt.IsZero() }

// Pause stops sending to the webhook until Resume. Attempts in flight finish and are recorded.
// Pause does nothing if the webhook is paused already. It returns the webhook after the change.
// Errors: *UnknownWebhookError, ErrOff.
func (w *Webhook) Pause(ctx context.Context, s *Store) (*Webhook, error) {
	return w.switchTo(ctx, s, audit.WebhookPause, func(tx pgx.Tx, now time.Time) (bool, error) {
		// Raising the epoch makes processes of every program version release the webhook.
		tag, err := tx.Exec(ctx, `
			UPDATE webhook w SET state = 'paused', paused_at = $3, version = version + 1,
			       epoch = epoch + 1, pause_epoch = epoch + 1, kept_epoch = `+dispatch.KeptEpoch+`
			 WHERE w.workspace_id = $1 AND w.webhook_id = $2 AND w.state = 'on'`, w.WorkspaceID, w.ID, now)
		if err != nil {
			return false, fmt.Errorf("pause webhook %s: %w", w.ID, err)
		}
		return tag.RowsAffected() > 0, nil
	})
}

// Resume starts sending to a paused webhook again: what has waited, in the order of the log, and
// then new events. It clears the failure count. Events and retries past the retention are counted
// in ExpiredEvents and not sent. Resume does nothing if the webhook is not paused. It returns the
// webhook after the change. Errors: *UnknownWebhookError, ErrOff.
func (w *Webhook) Resume(ctx context.Context, s *Store) (*Webhook, error) {
	return w.switchTo(ctx, s, audit.WebhookResume, func(tx pgx.Tx, now time.Time) (bool, error) {
		tag, err := tx.Exec(ctx, `
			UPDATE webhook SET state = 'on', paused_at = NULL, version = version + 1,
			       failing_since = NULL, failures = '{}', warned = 0
			 WHERE workspace_id = $1 AND webhook_id = $2 AND state = 'paused'`, w.WorkspaceID, w.ID)
		if err != nil {
			return false, fmt.Errorf("resume webhook %s: %w", w.ID, err)
		}
		if tag.RowsAffected() == 0 {
			return false, nil
		}
		// The history no longer has these deliveries, and nobody could look up their events.
		_, err = tx.Exec(ctx, `
			WITH gone AS (
			    DELETE FROM webhook_waiting WHERE workspace_id = $1 AND webhook_id = $2 AND created_at <= $3 RETURNING 1
			), n AS (SELECT count(*) AS n FROM gone)
			UPDATE webhook_cursor c SET expired = c.expired + n.n FROM n
			 WHERE c.workspace_id = $1 AND c.webhook_id = $2 AND n.n > 0`, w.WorkspaceID, w.ID, now.Add(-s.cfg.Settings.Retention))
		if err != nil {
			return false, fmt.Errorf("drop the retries of %s that are past the retention: %w", w.ID, err)
		}
		return true, nil
	})
}

// switchTo locks the webhook's row, runs do, and adds a line to the audit trail if do changed
// something.
func (w *Webhook) switchTo(ctx context.Context, s *Store, action audit.Action, do func(pgx.Tx, time.Time) (changed bool, err error)) (*Webhook, error) {
	err := s.change(ctx, w.ID, func(tx pgx.Tx, n *named) error {
		var off bool
		if err := tx.QueryRow(ctx, `SELECT state = 'off' FROM webhook WHERE workspace_id = $1 AND webhook_id = $2`, n.workspaceID, n.id).Scan(&off); err != nil {
			return fmt.Errorf("read the state of webhook %s: %w", n.id, err)
		}
		if off {
			return ErrOff
		}
		changed, err := do(tx, s.now())
		if err != nil || !changed {
			return err
		}
		return s.addToAudit(ctx, tx, action, n, "")
	})
	if err != nil {
		return nil, err
	}
	return s.Get(ctx, w.ID)
}

// Backlog is what waits for a paused webhook.
type Backlog struct {
	Events     int64     // to send once it is resumed
	MoreEvents bool      // there may be more: not all were counted
	Oldest     time.Time // publish time of the oldest of them; zero: none
	GoneFrom   time.Time // when the oldest of them passes the retention and is no longer sent; zero: none

	Retries     int64 // pending deliveries
	MoreRetries bool

	Lost     int64 // events that are past the retention already
	MoreLost bool
}

const (
	// maxBacklog bounds how many events and retries are counted.
	maxBacklog = 10_000
	// backlogWindow bounds how many positions of the log are examined: a webhook that chose rare
	// types skips many.
	backlogWindow = 50_000
)

// Backlog counts what waits for a paused webhook; it returns nil if the webhook is not paused.
func (w *Webhook) Backlog(ctx context.Context, s *Store) (*Backlog, error) {
	if !w.Paused() {
		return nil, nil
	}
	var (
		b             = &Backlog{}
		after, last   int64 // the positions above after, up to last, wait
		fresh         int64 // events above it can still be looked up
		oldest        *time.Time
		lookedAt, old int64
	)
	err := s.cfg.Pool.QueryRow(ctx, `
		SELECT c.position, v.position, greatest(log_position_since(c.workspace_id, $3) - 1, c.position)
		  FROM webhook_cursor c JOIN log_checkpoint v ON v.workspace_id = c.workspace_id AND v.consumer = 'read_models'
		 WHERE c.workspace_id = $1 AND c.webhook_id = $2`, w.WorkspaceID, w.ID, s.now().Add(-s.cfg.Settings.Retention)).Scan(&after, &last, &fresh)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, &UnknownWebhookError{w.ID}
	}
	if err != nil {
		return nil, fmt.Errorf("look for what waits for %s: %w", w.ID, err)
	}
	lookedAt, old = min(last, fresh+backlogWindow), min(fresh, after+backlogWindow, last)
	err = s.cfg.Pool.QueryRow(ctx, `
		WITH w AS (
		    SELECT events, ARRAY(SELECT d.position FROM webhook_delivery d
		                          WHERE d.workspace_id = $1 AND d.webhook_id = $2 AND d.position > $3) AS sent
		      FROM webhook WHERE workspace_id = $1 AND webhook_id = $2)
		SELECT (SELECT count(*) FROM (SELECT FROM event_log e
		                               WHERE e.workspace_id = $1 AND e.position > $3 AND e.position <= $4 AND `+waits+` LIMIT $7) AS lost),
		       n.n, n.oldest,
		       (SELECT count(*) FROM (SELECT FROM webhook_waiting WHERE workspace_id = $1 AND webhook_id = $2 LIMIT $7) AS retries)
		  FROM w, LATERAL (
		       SELECT count(*) AS n, min(created_at) AS oldest
		         FROM (SELECT e.created_at FROM event_log e
		                WHERE e.workspace_id = $1 AND e.position > $5 AND e.position <= $6 AND `+waits+`
		                ORDER BY e.position LIMIT $7) AS events) AS n`,
		w.WorkspaceID, w.ID, after, old, fresh, lookedAt, maxBacklog+1).Scan(&b.Lost, &b.Events, &oldest, &b.Retries)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, &UnknownWebhookError{w.ID}
	}
	if err != nil {
		return nil, fmt.Errorf("count what waits for %s: %w", w.ID, err)
	}
	b.MoreEvents = b.Events > maxBacklog || lookedAt < last
	b.MoreRetries = b.Retries > maxBacklog
	b.MoreLost = b.Lost > maxBacklog || old < min(fresh, last)
	b.Events, b.Retries, b.Lost = min(b.Events, maxBacklog), min(b.Retries, maxBacklog), min(b.Lost, maxBacklog)
	if oldest != nil {
		b.Oldest = oldest.UTC()
		b.GoneFrom = b.Oldest.Add(s.cfg.Settings.Retention)
	}
	return b, nil
}

// waits is an SQL condition: webhook w should get entry e and has not got it yet. It leaves out
// pings: each is for one webhook, and nobody misses one.
const waits = `e.public_event IS NOT NULL AND e.type <> 'test.ping' AND (w.events IS NULL OR e.type = ANY (w.events)) AND e.position <> ALL (w.sent)`
