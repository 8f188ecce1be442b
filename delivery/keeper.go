package delivery

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// listen passes wake-ups on to the desk.
func (e *Engine) listen(ctx context.Context) {
	waiter, done := e.cfg.Notifier.Subscribe(eventlog.TopicProjected)
	defer done()
	for {
		select {
		case <-ctx.Done():
			return
		case <-waiter.C:
			ids, all := waiter.Take()
			if all {
				e.desk.announceAll()
			}
			if len(ids) > 0 {
				e.desk.announce(ids)
			}
		}
	}
}

// sweep finds the webhooks that have something to do and that nobody else
// holds, because a wake-up was lost, a process died or a retry is due.
func (e *Engine) sweep(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-e.orphaned:
		}
		began := time.Now()
		next, err := e.sweepOnce(ctx)
		if err != nil && ctx.Err() == nil {
			e.logger.WarnContext(ctx, "the sweep for webhooks failed; it is made again", "error", err)
		}
		wait := max(e.cfg.Sweep, 50*time.Since(began))
		if next > 0 {
			wait = min(wait, max(next, 50*time.Since(began)))
		}
		timer.Reset(wait)
	}
}

// sweepOnce returns in how long the next retry is due; 0 when none is.
func (e *Engine) sweepOnce(ctx context.Context) (next time.Duration, err error) {
	e.lease.RLock()
	self := e.rows.self
	e.lease.RUnlock()
	found, voids, err := e.rows.sweep(ctx, self, e.clock())
	if err != nil {
		return 0, err
	}
	e.behind.Store(int64(e.desk.found(found)))
	for _, k := range voids {
		if err := e.rows.cancelVoid(ctx, k); err != nil {
			return 0, err
		}
	}
	due, err := e.rows.nextDue(ctx, e.clock())
	if err != nil || due.IsZero() {
		return 0, err
	}
	return max(due.Sub(e.clock()), time.Millisecond), nil
}

// candidate is a webhook that has something to do.
type candidate struct {
	key     key
	visible int64 // of its workspace, if events after its cursor are what it has to do
}

// sweep returns the webhooks with something to do that nobody but self holds,
// and those that are off and have deliveries to be cancelled.
func (r *rows) sweep(ctx context.Context, self string, now time.Time) (found []candidate, voids []key, err error) {
	list, err := r.pool.Query(ctx, `
		SELECT workspace_id, webhook_id, max(visible) FROM (
		       SELECT c.workspace_id, c.webhook_id, v.position AS visible FROM webhook_cursor c
		         JOIN webhook w ON w.workspace_id = c.workspace_id AND w.webhook_id = c.webhook_id AND w.state = 'on'
		         JOIN log_checkpoint v ON v.workspace_id = c.workspace_id AND v.consumer = 'read_models'
		        WHERE (v.position > c.position OR c.replay_until IS NOT NULL) AND (c.holder = $2 OR `+free+`)
		       UNION ALL
		       SELECT c.workspace_id, c.webhook_id, 0
		         FROM (SELECT DISTINCT workspace_id, webhook_id, epoch FROM webhook_waiting WHERE next_attempt_at <= $1) q
		         JOIN webhook_cursor c ON c.workspace_id = q.workspace_id AND c.webhook_id = q.webhook_id
		         JOIN webhook w ON w.workspace_id = c.workspace_id AND w.webhook_id = c.webhook_id AND (w.state = 'on' OR w.epoch = q.epoch)
		        WHERE c.holder = $2 OR `+free+`) AS f
		 GROUP BY workspace_id, webhook_id`, now, self)
	if err != nil {
		return nil, nil, fmt.Errorf("look for webhooks with something to do: %w", err)
	}
	found, err = pgx.CollectRows(list, func(row pgx.CollectableRow) (c candidate, err error) {
		err = row.Scan(&c.key.workspaceID, &c.key.webhookID, &c.visible)
		return c, err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("look for webhooks with something to do: %w", err)
	}
	voids, err = r.keys(ctx, "look for deliveries to cancel", `
		SELECT w.workspace_id, w.webhook_id FROM webhook w
		 WHERE w.state = 'off' AND EXISTS (
		       SELECT FROM webhook_waiting q
		        WHERE q.workspace_id = w.workspace_id AND q.webhook_id = w.webhook_id AND q.epoch < w.epoch)`)
	return found, voids, err
}

// nextDue is when the next retry is due, whoever holds its webhook; zero when
// none waits.
func (r *rows) nextDue(ctx context.Context, now time.Time) (time.Time, error) {
	var at *time.Time
	err := r.pool.QueryRow(ctx, `SELECT min(next_attempt_at) FROM webhook_waiting WHERE next_attempt_at > $1`, now).Scan(&at)
	if err != nil {
		return time.Time{}, fmt.Errorf("look for the next retry: %w", err)
	}
	if at == nil {
		return time.Time{}, nil
	}
	return *at, nil
}

const (
	// saveEvery is how often cursors that moved are saved.
	saveEvery = time.Second
	// skipSaves is how many times longer a cursor waits that only skipped
	// entries which are not for its webhook.
	skipSaves = 5
)

// tick has cursors saved and idle webhooks let go.
func (e *Engine) tick(ctx context.Context) {
	for n := 1; flow.Pause(ctx, saveEvery); n++ {
		e.desk.tick(n%skipSaves == 0, e.cfg.Idle)
	}
}

func (d *desk) tick(skips bool, idle time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock()
	for _, l := range d.lanes {
		switch {
		case l.leaving:
		case l.idle() && (now.Sub(l.lastUsed) >= idle || !l.hook.on) && len(l.counts) == 0:
			d.leave(l)
		case l.dirty || len(l.counts) > 0 || skips && l.done() > l.saved:
			d.saves = append(d.saves, l)
		}
	}
	if len(d.saves) > 0 {
		nudge(d.recording)
	}
}

// renewals of the lease in the time it lasts.
const renewals = 6

// keepLease renews the lease until ctx ends, shares webhooks evenly with other
// processes, and makes a new lease when the old one was lost.
func (e *Engine) keepLease(ctx context.Context) {
	every := time.NewTicker(e.rows.lease / renewals)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case self := <-e.lost:
			if self == e.rows.self { // else it was replaced already
				e.newLease(ctx)
			}
			continue
		case <-every.C:
		}
		began := time.Now()
		renewing, cancel := context.WithTimeout(ctx, e.rows.lease/2)
		c, err := e.rows.renew(renewing)
		cancel()
		switch {
		case err == nil:
			e.renewed.Store(int64(began.Sub(e.began)))
			e.desk.share(c, 2*e.rows.lease/renewals)
			if c.orphans > 0 {
				nudge(e.orphaned) // the next sweep may be far, where sweeping takes long
			}
			if c.mine > e.desk.load().lanes {
				e.reconcile(ctx)
			}
		case leaseOver(err):
			e.newLease(ctx)
		case ctx.Err() == nil:
			e.logger.WarnContext(ctx, "the lease could not be renewed; it is tried again", "error", err)
		}
	}
}

// reconcile frees webhooks that are held in name only, because the answer to a
// claim was lost.
func (e *Engine) reconcile(ctx context.Context) {
	e.lease.Lock() // no claim is between the database and the desk
	defer e.lease.Unlock()
	ctx, cancel := context.WithTimeout(ctx, statementPatience)
	defer cancel()
	held, err := e.rows.held(ctx)
	if err == nil {
		held = e.desk.notHere(held)
		if len(held) == 0 {
			return
		}
		err = e.rows.release(ctx, inName(held))
	}
	if err != nil && ctx.Err() == nil {
		e.logger.WarnContext(ctx, "webhooks held in name only could not be freed; it is tried again", "error", err)
	}
}

// notHere are those of the webhooks that are not on the desk.
func (d *desk) notHere(held []key) []key {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(held, func(k key) bool { return d.lanes[k] != nil })
}

func (e *Engine) keptLease() { e.renewed.Store(int64(time.Since(e.began))) }

// mayStart tells whether the lease lasts longer than an attempt begun now.
func (e *Engine) mayStart() bool {
	age := time.Since(e.began) - time.Duration(e.renewed.Load())
	return age < e.rows.lease-e.cfg.Settings.Timeout
}

// loseLease has a new lease taken in the place of the one named, soon.
func (e *Engine) loseLease(self string) {
	select {
	case e.lost <- self:
	default: // the keeper has enough to go by
	}
}

// newLease gives up what was held and begins again under a new name.
func (e *Engine) newLease(ctx context.Context) {
	for ctx.Err() == nil {
		err := e.swapLease(ctx)
		if err == nil {
			e.logger.WarnContext(ctx, "a new lease for delivering was taken; the webhooks of the old one are claimed again")
			return
		}
		e.logger.WarnContext(ctx, "no new lease could be taken; it is tried again", "error", err)
		flow.Pause(ctx, 4*retryPause)
	}
}

func (e *Engine) swapLease(ctx context.Context) error {
	e.lease.Lock()
	defer e.lease.Unlock()
	e.desk.abandon()
	if err := e.rows.retire(ctx); err != nil {
		return err
	}
	if err := e.rows.enlist(ctx); err != nil {
		return err
	}
	e.keptLease()
	return nil
}

// share lets webhooks go that are more than this process's even share, so that
// another one takes them. For a while this one does not claim them.
func (d *desk) share(c census, rest time.Duration) {
	if c.instances < 2 {
		return
	}
	surplus := c.mine - (c.held+c.instances-1)/c.instances
	if surplus <= 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	until := d.clock().Add(rest)
	for _, l := range d.lanes {
		if surplus == 0 {
			return
		}
		if !l.leaving && !l.turningOff {
			l.handedOver = true
			d.resting[l.key] = until
			d.leave(l)
			surplus--
		}
	}
}
