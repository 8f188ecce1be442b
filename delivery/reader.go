package delivery

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

const (
	// readBatch is how many webhooks one statement reads for.
	readBatch = 64
	// readers read side by side, so that one long statement (missed events of
	// weeks) does not hold the others up.
	readers = 2
	// retryPause is the pause after a statement failed; the database may be
	// away. Where it grows, it grows up to maxRetryPause.
	retryPause    = 250 * time.Millisecond
	maxRetryPause = 2 * time.Second
)

// read claims webhooks and reads for those that want it, until ctx ends.
func (e *Engine) read(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.desk.readable:
		}
		workspaces, keys, lanes := e.desk.takeWork()
		var err error
		if len(workspaces)+len(keys) > 0 {
			if err = e.claim(ctx, workspaces, keys); err != nil {
				e.desk.putWorkBack(workspaces, keys)
			}
		}
		if len(lanes) > 0 {
			err = e.readFor(ctx, lanes, err)
		}
		if err != nil && ctx.Err() == nil {
			e.logger.WarnContext(ctx, "reading for webhooks failed; it is done again", "error", err)
			flow.Pause(ctx, retryPause)
		}
	}
}

// takeWork takes what is to be claimed and read for. The token is passed on
// when something is left.
func (d *desk) takeWork() (workspaces []string, keys []key, lanes []*lane) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, nil, nil
	}
	workspaces = d.loud()
	keys = slices.Collect(maps.Keys(d.keys))
	clear(d.keys)
	n := min(len(d.wants), readBatch)
	lanes = slices.Clone(d.wants[:n])
	d.wants = slices.Delete(d.wants, 0, n)
	lanes = slices.DeleteFunc(lanes, func(l *lane) bool {
		l.wanted = false
		if l.leaving {
			l.announced = true
			return true
		}
		l.reading = true
		return false
	})
	if len(d.wants) > 0 {
		nudge(d.readable)
	}
	return workspaces, keys, lanes
}

func (d *desk) putWorkBack(workspaces []string, keys []key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range workspaces {
		d.workspaces[w] = struct{}{}
	}
	for _, k := range keys {
		d.keys[k] = struct{}{}
	}
	nudge(d.readable)
}

// claim takes webhooks that nobody holds and puts them on the desk.
func (e *Engine) claim(ctx context.Context, workspaces []string, keys []key) error {
	ctx, cancel := context.WithTimeout(ctx, statementPatience)
	defer cancel()
	e.lease.RLock() // the name under which they are claimed must not change meanwhile
	defer e.lease.RUnlock()
	claimed, err := e.rows.claim(ctx, workspaces, keys, e.desk.rest(), e.clock())
	if err != nil {
		return err
	}
	e.desk.claimed(workspaces, claimed)
	if len(claimed) == 0 {
		return nil
	}
	all, err := e.rows.load(ctx, claimed)
	if err != nil {
		return e.unclaim(ctx, claimed, err)
	}
	for k, l := range all {
		if l.void {
			if err := e.rows.cancelVoid(ctx, k); err != nil {
				return e.unclaim(ctx, claimed, err)
			}
		}
	}
	sent, err := e.rows.journal(ctx, all)
	if err != nil {
		return e.unclaim(ctx, claimed, err)
	}
	e.desk.seat(all, sent)
	return nil
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
			nudge(d.readable)
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

// readFor reads what is due for some lanes. Instead of reading after another
// error it only gives them back.
func (e *Engine) readFor(ctx context.Context, lanes []*lane, before error) error {
	questions := e.desk.ask(lanes)
	if before != nil {
		e.desk.unread(questions)
		return before
	}
	ctx, cancel := context.WithTimeout(ctx, statementPatience)
	defer cancel()
	answers, err := e.rows.poll(ctx, questions, e.clock())
	if err != nil {
		e.desk.unread(questions)
		return err
	}
	var changed []key
	for i, a := range answers {
		if a.found && a.version != questions[i].version {
			changed = append(changed, questions[i].key)
		}
	}
	var anew map[key]*loaded
	if len(changed) > 0 {
		if anew, err = e.rows.load(ctx, changed); err != nil {
			e.desk.unread(questions)
			return err
		}
	}
	for i, q := range questions {
		if q.replayUntil == 0 || q.replayRoom == 0 || anew[q.key] != nil || !answers[i].found {
			continue
		}
		answers[i].jobs[missed], answers[i].replay, err = e.rows.missed(ctx, q)
		if err != nil {
			e.desk.unread(questions)
			return err
		}
	}
	e.desk.serve(questions, answers, anew)
	return nil
}
