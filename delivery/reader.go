package delivery

import (
	"context"
	"maps"
	"slices"
	"time"
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
			pause(ctx, retryPause)
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
	now := time.Now()
	for w := range d.workspaces {
		if !now.Before(d.quiet[w]) {
			workspaces = append(workspaces, w)
		}
	}
	keys = slices.Collect(maps.Keys(d.keys))
	clear(d.workspaces)
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
	list := make([]leaving, len(keys))
	for i, k := range keys {
		list[i] = leaving{key: k, epoch: -1, version: -1} // matches none: the cursors stay
	}
	if err := e.rows.release(context.WithoutCancel(ctx), list); err != nil {
		// Held in name only: a new lease frees them.
		e.loseLease(e.rows.self)
	}
	return cause
}

// seat makes lanes of webhooks that were claimed.
func (d *desk) seat(all map[key]*loaded, sent map[key]map[int64]struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, w := range all {
		l := newLane(k)
		l.hook, l.health = w.hook, w.health
		l.scanned, l.visible, l.saved = w.position, w.position, w.position
		if w.replayUntil > 0 {
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

// ask says what is to be read for lanes.
func (d *desk) ask(lanes []*lane) []*question {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]*question, len(lanes))
	for i, l := range lanes {
		list[i] = &question{
			key: l.key, lane: l, version: l.hook.version, events: l.hook.events,
			after: l.scanned, room: max(readAhead-len(l.queue[fresh]), 0),
			retryRoom: max(readAhead-len(l.queue[retry]), 0),
			replay:    l.replayed, replayUntil: l.replayUntil, replayRoom: max(readAhead-len(l.queue[missed]), 0),
		}
	}
	return list
}

// unread is told that nothing could be read.
func (d *desk) unread(questions []*question) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range questions {
		d.readDone(q.lane)
		if !q.lane.leaving {
			d.want(q.lane)
		}
	}
}

func (d *desk) readDone(l *lane) {
	l.reading = false
	clear(l.finished)
	if l.again {
		l.again = false
		d.want(l)
	}
	d.settle(l)
}

// serve puts what was read into the lanes. Settings in anew replace the old
// ones; what was read under the old ones is read again.
func (d *desk) serve(questions []*question, answers []answer, anew map[key]*loaded) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, q := range questions {
		l, a := q.lane, &answers[i]
		switch w := anew[q.key]; {
		case !a.found:
			d.leave(l) // deleted
		case w != nil:
			d.change(l, w)
		case !l.leaving:
			d.fill(l, a, q)
		}
		d.readDone(l)
		d.offer(l)
	}
}

func (d *desk) fill(l *lane, a *answer, q *question) {
	for from := range lots {
		for _, j := range a.jobs[from] {
			if _, ok := l.ahead[j.position]; ok && from == fresh {
				delete(l.ahead, j.position)
				continue
			}
			if from != fresh && l.holds(j.position) {
				continue
			}
			j.lane = l
			l.queue[from] = append(l.queue[from], j)
		}
	}
	l.scanned, l.visible = max(l.scanned, a.scanned), a.visible
	if q.replayUntil > 0 && q.replayRoom > 0 {
		l.replayed = max(l.replayed, a.replay)
		l.dirty = true // have it written down how far it came
	}
	l.nextAttempt = time.Time{}
	d.dueAt(l, a.nextAttempt)
	l.moreDue = len(a.jobs[retry]) >= q.retryRoom // refill asks when there is room
	if len(l.queue[fresh]) == 0 && l.scanned < l.visible || len(l.queue[missed]) == 0 && l.replayed < l.replayUntil {
		l.again = true // nothing but what was sent before, or is not for it
	}
}

// change gives a lane new settings. After it went off, or off and on, the lane
// is let go: its cursor is no longer ours to move.
func (d *desk) change(l *lane, w *loaded) {
	if !w.hook.on || w.hook.epoch != l.hook.epoch {
		l.hook = &hook{epoch: -1, version: -1}
		d.leave(l)
		l.announced = w.hook.on
		return
	}
	if !slices.Equal(w.hook.events, l.hook.events) || (w.hook.events == nil) != (l.hook.events == nil) {
		l.unread(fresh)
	}
	if w.replayUntil != l.replayUntil || w.replay < l.savedReplay {
		l.queue[missed] = nil
		l.replayed, l.replayUntil, l.savedReplay = w.replay, w.replayUntil, w.replay
	}
	l.hook = w.hook
	l.again = true
}
