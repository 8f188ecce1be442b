package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// listen passes notifications on to the loop.
func (d *Dispatcher) listen(ctx context.Context) {
	subscription, end := d.cfg.Notifier.Subscribe(eventlog.TopicProjected)
	defer end()
	for {
		select {
		case <-ctx.Done():
			return
		case <-subscription.C:
			ids, all := subscription.Take()
			d.post(scheduler.Changed{WorkspaceIDs: ids, All: all})
		}
	}
}

// sweepShare limits sweeps to one fiftieth of the time.
const sweepShare = 50

// sweep finds webhooks with work that no other process holds: a notification was lost, a process
// died, or a retry is due.
func (d *Dispatcher) sweep(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-d.orphaned:
		}
		began := time.Now()
		next, err := d.sweepOnce(ctx)
		if ctx.Err() == nil {
			d.outages.searching.LogTransition(ctx, err)
		}
		least := sweepShare * time.Since(began)
		wait := max(d.cfg.Sweep, least)
		if next > 0 {
			wait = min(wait, max(next, least))
		}
		timer.Reset(wait)
	}
}

// sweepOnce sweeps once and returns the time until the next retry is due; 0: none waits.
func (d *Dispatcher) sweepOnce(ctx context.Context) (next time.Duration, err error) {
	found, outdated, err := d.store.sweep(ctx, *d.lease.Load(), d.clock())
	if err != nil {
		return 0, err
	}
	d.post(scheduler.Found{Candidates: found})
	for _, k := range outdated {
		if err := d.store.cancelOutdated(ctx, k); err != nil {
			return 0, err
		}
	}
	due, err := d.store.nextRetry(ctx, d.clock())
	if err != nil || due.IsZero() {
		return 0, err
	}
	return max(due.Sub(d.clock()), time.Millisecond), nil
}

// sweep returns the webhooks with work that no other process holds, and paused webhooks that this
// process still holds. outdated are webhooks that are off and have deliveries to cancel.
func (s *store) sweep(ctx context.Context, lease string, now time.Time) (found []scheduler.Candidate, outdated []scheduler.Key, err error) {
	found, err = pg.Collect(ctx, s.pool, scanCandidate, `
		SELECT workspace_id, webhook_id, max(visible) FROM (
		       SELECT c.workspace_id, c.webhook_id, v.position AS visible FROM webhook_cursor c
		         JOIN webhook w ON w.workspace_id = c.workspace_id AND w.webhook_id = c.webhook_id AND w.state = 'on'
		         JOIN log_checkpoint v ON v.workspace_id = c.workspace_id AND v.consumer = 'read_models'
		        WHERE (v.position > c.position OR c.replay_until IS NOT NULL) AND (c.holder = $2 OR `+free+`)
		       UNION ALL
		       SELECT c.workspace_id, c.webhook_id, 0 FROM webhook_cursor c
		         JOIN webhook w ON w.workspace_id = c.workspace_id AND w.webhook_id = c.webhook_id AND w.state = 'paused'
		        WHERE c.holder = $2
		       UNION ALL
		       SELECT c.workspace_id, c.webhook_id, 0
		         FROM (SELECT DISTINCT workspace_id, webhook_id, epoch FROM webhook_waiting WHERE next_attempt_at <= $1) q
		         JOIN webhook_cursor c ON c.workspace_id = q.workspace_id AND c.webhook_id = q.webhook_id
		         JOIN webhook w ON w.workspace_id = c.workspace_id AND w.webhook_id = c.webhook_id AND (w.state = 'on' OR w.epoch = q.epoch)
		        WHERE c.holder = $2 OR `+free+`) AS f
		 GROUP BY workspace_id, webhook_id`, now, lease)
	if err != nil {
		return nil, nil, fmt.Errorf("search for webhooks with something to do: %w", err)
	}
	outdated, err = s.keys(ctx, "search for deliveries to cancel", `
		SELECT w.workspace_id, w.webhook_id FROM webhook w
		 WHERE w.state = 'off' AND EXISTS (
		       SELECT FROM webhook_waiting q
		        WHERE q.workspace_id = w.workspace_id AND q.webhook_id = w.webhook_id AND q.epoch < w.epoch)`)
	return found, outdated, err
}

func scanCandidate(row pgx.CollectableRow) (c scheduler.Candidate, err error) {
	err = row.Scan(&c.Key.WorkspaceID, &c.Key.WebhookID, &c.Visible)
	return c, err
}

// nextRetry returns when the next retry of any webhook is due; zero: none waits.
func (s *store) nextRetry(ctx context.Context, now time.Time) (time.Time, error) {
	var at *time.Time
	err := s.pool.QueryRow(ctx, `SELECT min(next_attempt_at) FROM webhook_waiting WHERE next_attempt_at > $1`, now).Scan(&at)
	if err != nil {
		return time.Time{}, fmt.Errorf("look for the next retry: %w", err)
	}
	if at == nil {
		return time.Time{}, nil
	}
	return *at, nil
}
