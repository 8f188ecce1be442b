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

// A person pauses a webhook while its receiver is being repaired or moved. Nothing is sent
// to it of its own accord, and everything stays where it is: its cursor, missed events that
// are being sent, and deliveries that are pending. Resuming goes on from there.

// Paused tells whether somebody has paused the webhook.
func (w *Webhook) Paused() bool { return !w.PausedAt.IsZero() }

// Pause stops what is sent to the webhook until Resume. Attempts that are under way end,
// and count as ever. A webhook that is paused stays as it is. It returns the webhook as it
// is then. Errors: *UnknownWebhookError, ErrOff.
func (w *Webhook) Pause(ctx context.Context, s *Store) (*Webhook, error) {
	return w.switchTo(ctx, s, audit.WebhookPause, func(tx pgx.Tx, now time.Time) (bool, error) {
		// The epoch rises, so that processes of every version give the webhook back.
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

// Resume sends to a paused webhook again: what has waited, in the order of the log, and what
// comes. Its count of failures begins again. Events and retries that are past the retention
// are counted in ExpiredEvents. A webhook that is not paused stays as it is. It returns the
// webhook as it is then. Errors: *UnknownWebhookError, ErrOff.
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
		// The history does not have these any more, and nobody could look the events up.
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

// switchTo runs do on the webhook, whose row is locked, and adds what it changed to the
// audit trail.
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
	Events     int64     // that it gets once it is resumed
	MoreEvents bool      // there are more: not all were looked at
	Oldest     time.Time // publish time of the first of them; zero: none waits
	GoneFrom   time.Time // when the first of them is past the retention, and no longer sent; zero: none waits

	Retries     int64 // pending deliveries
	MoreRetries bool

	Lost     int64 // events that are past the retention already
	MoreLost bool
}

const (
	// maxBacklog is how many events and retries are counted.
	maxBacklog = 10_000
	// backlogWindow is how many positions of the log are looked at for them: a webhook that
	// chose rare types passes over many.
	backlogWindow = 50_000
)

// Backlog counts what waits for a paused webhook; nil: it is not paused.
func (w *Webhook) Backlog(ctx context.Context, s *Store) (*Backlog, error) {
	if !w.Paused() {
		return nil, nil
	}
	var (
		b             = &Backlog{}
		after, last   int64 // the positions after the first, up to the second, wait
		fresh         int64 // those after it can still be looked up
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

// waits is true of an entry e that webhook w gets and has not got. Pings are left out: they
// are for one webhook each, and nobody misses one.
const waits = `e.public_event IS NOT NULL AND e.type <> 'test.ping' AND (w.events IS NULL OR e.type = ANY (w.events)) AND e.position <> ALL (w.sent)`
