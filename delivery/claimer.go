package delivery

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// claimPause is the pause after a claim in vain, so that events for webhooks that
// are held, which is nearly all of them, share the next.
const claimPause = 20 * time.Millisecond

// claims claims webhooks that nobody holds, until ctx ends. Events for those that
// are held do not wait for it.
func (e *Engine) claims(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.desk.claimable:
		}
		workspaces, keys := e.desk.takeClaims()
		if len(workspaces)+len(keys) == 0 {
			continue
		}
		n, err := e.claim(ctx, workspaces, keys)
		switch {
		case err != nil:
			e.desk.putClaimsBack(workspaces, keys)
			if ctx.Err() == nil {
				e.logger.WarnContext(ctx, "claiming webhooks failed; it is done again", "error", err)
			}
			flow.Pause(ctx, retryPause)
		case n == 0:
			flow.Pause(ctx, claimPause)
		}
	}
}

// takeClaims takes what is to be claimed.
func (d *desk) takeClaims() (workspaces []string, keys []key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, nil
	}
	workspaces = d.loud()
	keys = slices.Collect(maps.Keys(d.keys))
	clear(d.keys)
	return workspaces, keys
}

func (d *desk) putClaimsBack(workspaces []string, keys []key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range workspaces {
		d.workspaces[w] = struct{}{}
	}
	for _, k := range keys {
		d.keys[k] = struct{}{}
	}
	nudge(d.claimable)
}

// claim takes webhooks that nobody holds, puts them on the desk, and returns how
// many there were.
func (e *Engine) claim(ctx context.Context, workspaces []string, keys []key) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, statementPatience)
	defer cancel()
	e.lease.RLock() // the name under which they are claimed must not change meanwhile
	defer e.lease.RUnlock()
	claimed, err := e.rows.claim(ctx, workspaces, keys, e.desk.rest(), e.clock())
	if err != nil {
		return 0, err
	}
	e.desk.claimed(workspaces, claimed)
	if len(claimed) == 0 {
		return 0, nil
	}
	all, err := e.rows.load(ctx, claimed)
	if err != nil {
		return 0, e.unclaim(ctx, claimed, err)
	}
	for k, l := range all {
		if l.void {
			if err := e.rows.cancelVoid(ctx, k); err != nil {
				return 0, e.unclaim(ctx, claimed, err)
			}
		}
	}
	sent, err := e.rows.journal(ctx, all)
	if err != nil {
		return 0, e.unclaim(ctx, claimed, err)
	}
	e.desk.seat(all, sent)
	return len(claimed), nil
}

// In a busy workspace whose webhooks are all held, not every new event is
// worth a claim: after one in vain the next waits so long, or for the sweep.
const (
	quietTime = 200 * time.Millisecond
	quietMost = 10_000
)

// loud takes the workspaces that are worth a claim now, and has the others
// looked at again. Needs the lock.
func (d *desk) loud() (list []string) {
	now := time.Now()
	for w := range d.workspaces {
		if !now.Before(d.quiet[w]) {
			list = append(list, w)
			delete(d.workspaces, w)
		}
	}
	if len(d.workspaces) > 0 && !d.waking {
		d.waking = true
		time.AfterFunc(quietTime, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.waking = false
			nudge(d.claimable)
		})
	}
	return list
}

// claimed notes in which workspaces there was nothing to claim.
func (d *desk) claimed(workspaces []string, claimed []key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.quiet) > quietMost {
		clear(d.quiet)
	}
	until := time.Now().Add(quietTime)
	for _, w := range workspaces {
		d.quiet[w] = until
	}
	for _, k := range claimed {
		delete(d.quiet, k.workspaceID)
	}
}

// rest lists the webhooks that are left to other processes for a moment.
func (d *desk) rest() []key {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock()
	maps.DeleteFunc(d.resting, func(_ key, until time.Time) bool { return !now.Before(until) })
	return slices.Collect(maps.Keys(d.resting))
}

// unclaim gives webhooks back that could not be loaded.
func (e *Engine) unclaim(ctx context.Context, keys []key, cause error) error {
	if err := e.rows.release(ctx, inName(keys)); err != nil {
		return errors.Join(cause, err) // held in name only, until reconcile
	}
	return cause
}

// seat makes lanes of webhooks that were claimed.
func (d *desk) seat(all map[key]*loaded, sent map[key]map[int64]struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, w := range all {
		if d.lanes[k] != nil {
			continue // not reached: what is held is not free
		}
		l := newLane(k)
		l.hook, l.health = w.hook, w.health
		if !l.health.FailingSince.IsZero() {
			l.dear = dearAfter // until this process has a connection to it and gets an answer, it is one of those
		}
		l.scanned, l.visible, l.saved = w.position, w.position, w.position
		if w.replayUntil > 0 && w.hook.on {
			l.replayed, l.replayUntil, l.savedReplay = w.replay, w.replayUntil, w.replay
		}
		if s := sent[k]; s != nil {
			l.ahead = s
		}
		l.lastUsed = d.clock()
		d.lanes[k] = l
		d.byWork[k.workspaceID] = append(d.byWork[k.workspaceID], l)
		d.want(l)
	}
}
