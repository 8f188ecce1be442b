package delivery

import (
	"context"
	"time"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// recordBatch is the most attempts of one statement.
const recordBatch = 500

// Results are let gather, because everything else on the server waits behind a
// commit: patience after the first of them, or until there are enough. When a
// webhook waits for a place to send more, they gather for no longer than gather,
// and only while others are about to come.
const (
	patience   = 10 * time.Millisecond
	gather     = 3 * time.Millisecond
	gathered   = 16
	gatherFrom = 8 // attempts under way
)

// ended has what came of an attempt recorded. Needs the lock.
func (d *desk) ended(j *job) {
	if len(d.results) == 0 {
		d.firstResult = time.Now()
	}
	d.results = append(d.results, j)
	nudge(d.recording)
	if len(d.results) == gathered {
		nudge(d.hurrying)
	}
	d.press(j.lane)
}

// press has results recorded soon when the lane waits for a place. One that
// fails is in no hurry, so that it does not cost the others commits. Needs the
// lock.
func (d *desk) press(l *lane) {
	if !d.pressed && l.unrecorded >= d.bound && l.health.FailingSince.IsZero() && l.waiting() > 0 {
		d.pressed = true
		nudge(d.hurrying)
	}
}

// wait tells how long results may still gather.
func (d *desk) wait() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if gathers := d.gathers(); gathers > 0 {
		return gathers - time.Since(d.firstResult)
	}
	return 0
}

// gathers is how long results may gather after the first of them. Needs the lock.
func (d *desk) gathers() time.Duration {
	switch {
	case d.closed || len(d.results) == 0 || len(d.results) >= gathered:
		return 0
	case !d.pressed:
		return patience
	case d.underWay >= gatherFrom:
		return gather
	default:
		return 0
	}
}

// letGather returns when it is time to write results down.
func (d *desk) letGather(stop <-chan struct{}) {
	for wait := d.wait(); wait > 0; wait = d.wait() {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-d.hurrying:
		case <-stop:
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// record writes down what came of attempts, until stop is closed and nothing
// is left. While one statement is under way the results of the next gather.
func (e *Engine) record(ctx context.Context, stop <-chan struct{}) {
	for {
		stopping := false
		select {
		case <-e.desk.recording:
			e.desk.letGather(stop)
		case <-stop:
			stopping = true
		}
		r, alarms, leavers := e.desk.takeResults(recordBatch)
		if !r.empty() {
			e.write(ctx, r)
		}
		for _, a := range alarms {
			e.raise(ctx, a)
		}
		if len(leavers) > 0 {
			e.release(ctx, leavers)
		}
		if stopping && r.empty() && len(leavers) == 0 {
			return
		}
	}
}

// write repeats until it is written or no longer ours to write: what was sent
// must not be forgotten because the database is away.
func (e *Engine) write(ctx context.Context, r *record) {
	for wait := retryPause; ; wait = min(2*wait, maxRetryPause) {
		self, err := e.writeOnce(ctx, r)
		switch {
		case err == nil:
			e.desk.recorded(r)
			return
		case leaseOver(err):
			e.logger.WarnContext(ctx, "the lease was over before attempts could be recorded; others send them again", "attempts", len(r.jobs))
			e.loseLease(self) // their places stay taken: no more is started for a webhook that may be another's
			return
		case ctx.Err() != nil:
			e.desk.recorded(r)
			return
		}
		e.logger.WarnContext(ctx, "attempts could not be recorded; it is done again", "attempts", len(r.jobs), "error", err)
		flow.Pause(ctx, wait)
	}
}

// statementPatience bounds a statement whose connection may have died without
// a word.
const statementPatience = 30 * time.Second

// writeOnce tells under which lease it was tried.
func (e *Engine) writeOnce(ctx context.Context, r *record) (self string, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementPatience)
	defer cancel()
	e.lease.RLock()
	defer e.lease.RUnlock()
	return e.rows.self, e.rows.record(ctx, r)
}

// takeResults takes what is to be recorded now: attempts, and with them the
// cursors and counts that are due to be saved.
func (d *desk) takeResults(most int) (*record, []alarm, []*lane) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := &record{}
	n := min(len(d.results), most)
	for _, j := range d.results[:n] {
		r.addAttempt(j)
		if l := j.lane; l.healthDirty {
			l.healthDirty = false
			r.addHealth(l)
		}
	}
	clear(d.results[:n])
	d.pressed = false
	if d.results = d.results[n:]; len(d.results) > 0 {
		nudge(d.recording)
	}
	for _, l := range d.saves {
		r.addSave(l)
	}
	alarms, leavers := d.alarms, d.leavers
	d.saves, d.alarms, d.leavers = nil, nil, nil
	for _, l := range leavers {
		r.addCounts(l)
	}
	return r, alarms, leavers
}

// addSave has the lane's cursor moved to where it is, and its counts added.
// What the same statement records is not counted as done: the cursor may lag.
func (r *record) addSave(l *lane) {
	if done, replay := l.done(), l.replayDone(); done > l.saved || replay > l.savedReplay {
		r.addCursor(l, done, replay)
		l.saved, l.savedReplay = done, replay
		if l.replayUntil > 0 && replay >= l.replayUntil {
			l.replayed, l.replayUntil, l.savedReplay = 0, 0, 0
		}
	}
	l.dirty = false
	r.addCounts(l)
}

func (r *record) addCounts(l *lane) {
	for c, n := range l.counts {
		r.addCount(l, c, n)
	}
	clear(l.counts)
}

// recorded frees the places of what was written down.
func (d *desk) recorded(r *record) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, j := range r.jobs {
		l := j.lane
		l.recorded(j)
		if l.lost {
			continue
		}
		if j.state == Pending && !l.leaving {
			d.dueAt(l, j.next)
		}
		d.refill(l)
		d.offer(l)
		d.settle(l)
	}
}

// release gives lanes back that are on their way out.
func (e *Engine) release(ctx context.Context, lanes []*lane) {
	list := make([]leaving, len(lanes))
	var again []key
	for i, l := range lanes {
		list[i] = leaving{key: l.key, epoch: l.hook.epoch, version: l.hook.version, done: l.done(), replay: l.replayDone()}
		if l.announced {
			again = append(again, l.key)
		}
	}
	e.lease.RLock()
	self, err := e.rows.self, e.rows.release(ctx, list)
	e.lease.RUnlock()
	if err != nil && ctx.Err() == nil {
		e.logger.WarnContext(ctx, "webhooks could not be released; a new lease frees them", "webhooks", len(list), "error", err)
		e.loseLease(self)
		return
	}
	e.desk.candidates(again)
	for _, l := range lanes {
		if l.handedOver {
			e.notify(eventlog.TopicProjected, l.key.workspaceID)
		}
	}
}

// raise sees to a decision about a whole webhook.
func (e *Engine) raise(ctx context.Context, a alarm) {
	e.group.Go(func() {
		for {
			err := e.alarm(ctx, a)
			if err == nil || ctx.Err() != nil {
				break
			}
			e.logger.WarnContext(ctx, "the finance team could not be told about a failing webhook; it is done again", "webhook", a.lane.key.webhookID, "error", err)
			flow.Pause(ctx, 4*retryPause)
		}
		if a.kind == TurnedOff {
			e.desk.turnedOff(a.lane)
		}
	})
}

// turnedOff lets a lane go whose webhook is off.
func (d *desk) turnedOff(l *lane) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.hook = &hook{epoch: -1, version: -1}
	d.leave(l)
}
