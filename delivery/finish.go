package delivery

import "time"

// finish is told that an attempt was made, decides what is next and has it
// recorded.
func (d *desk) finish(j *job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := j.lane
	l.underWay--
	d.underWay--
	l.troubles = 0
	if l.lost {
		l.unrecorded--
		d.settle(l)
		return
	}
	if j.made.IsZero() {
		j.made = j.attempt.At
	}
	l.counts[count{j.attempt.At.Truncate(time.Hour), j.attempt.Outcome}]++
	a := Attempted{N: j.number(), Before: j.before, Once: j.once, Success: j.attempt.Success(), Ended: j.attempt.Ended().Truncate(time.Millisecond)}
	if l.turningOff || !l.hook.on || l.hook.epoch != j.hook.epoch {
		j.state = d.policy.DecideOff(a)
	} else {
		v := d.policy.Decide(l.health, a)
		j.state, j.next = v.State, v.Next
		d.judge(l, j, v)
	}
	d.judgeCost(l, dearFailure(j.attempt))
	d.ended(j)
	d.feedStarved()
}

// abandon forgets every lane: the lease under which they were held is over.
// Attempts that are under way end, and are not recorded.
func (d *desk) abandon() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.lanes {
		l.lost, l.leaving = true, true
		d.remove(l)
	}
	for _, j := range d.results {
		j.lane.unrecorded--
	}
	d.queue, d.starved, d.turns, d.wants, d.results, d.saves, d.leavers = nil, nil, nil, nil, nil, nil, nil
	clear(d.lanes)
}

// judge keeps the webhook's health and raises an alarm. Needs the lock.
func (d *desk) judge(l *lane, j *job, v Verdict) {
	if !l.health.FailingSince.IsZero() || !v.Health.FailingSince.IsZero() {
		l.healthDirty = true
	}
	if v.Alarm != Quiet {
		d.alarms = append(d.alarms, alarm{
			lane: l, kind: v.Alarm, hook: l.hook, since: v.Health.FailingSince,
			at: j.attempt.Ended(), reason: j.attempt.Error, answer: j.attempt.Answer,
		})
	}
	l.turningOff = v.Alarm == TurnedOff
	l.health = v.Health
}

// giveBack is told that an attempt could not be made, for a reason that is not
// the receiver's. Its webhook pauses.
func (d *desk) giveBack(j *job) (pause time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := j.lane
	l.putBack(j)
	d.underWay--
	pause = min(time.Second<<min(l.troubles, 6), time.Minute)
	l.troubles++
	l.notBefore = d.clock().Add(pause)
	if l.hook == j.hook {
		stale := *l.hook
		stale.version = -1 // read it again: its key may have come
		l.hook = &stale
	}
	d.feedStarved()
	d.settle(l)
	time.AfterFunc(pause, func() { d.wake(l) })
	return pause
}
