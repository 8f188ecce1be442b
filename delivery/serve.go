package delivery

import (
	"slices"
	"time"
)

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
		if !l.hook.on { // it is here for "Send again" alone
			list[i].room = 0
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
	l.reading, l.read = false, time.Now()
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
	if !l.hook.on {
		l.visible = l.scanned // nothing after it is for a webhook that is off
	}
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
	if w.hook.epoch != l.hook.epoch {
		l.hook = &hook{epoch: -1, version: -1}
		d.leave(l)
		l.announced = true
		return
	}
	if !slices.Equal(w.hook.events, l.hook.events) || (w.hook.events == nil) != (l.hook.events == nil) {
		l.unread(fresh)
	}
	if w.hook.on && (w.replayUntil != l.replayUntil || w.replay < l.savedReplay) {
		l.queue[missed] = nil
		l.replayed, l.replayUntil, l.savedReplay = w.replay, w.replayUntil, w.replay
	}
	l.hook = w.hook
	l.again = true
}
