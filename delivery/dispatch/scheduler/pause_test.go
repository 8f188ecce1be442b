package scheduler

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
)

// pause is what a user does; the notification may be lost.
func (w *world) pause(h *simWebhook, notified bool) {
	if !h.sends() {
		return
	}
	h.paused, h.pausedAt = true, w.now
	h.version++
	h.epoch++
	if notified {
		w.notify(h.key.WorkspaceID)
	}
}

// resume is what a user does.
func (w *world) resume(h *simWebhook) {
	if !h.paused {
		return
	}
	h.paused, h.health = false, policy.Health{}
	h.version++
	w.notify(h.key.WorkspaceID)
}

// retryNow is what a user does with a pending delivery of a paused webhook.
func (w *world) retryNow(h *simWebhook, position int64) {
	if d := h.deliveries[position]; d != nil && h.paused && d.state == policy.Pending && d.epoch >= h.kept && d.epoch < h.epoch {
		d.next, d.epoch, d.byHand = w.now, h.epoch, true
		w.notify(h.key.WorkspaceID)
	}
}

// pauseSeen is within what time of a pause every process knows of it, unless something
// fails: it is notified, or else its sweep finds it and reads it again.
const (
	pauseNotified = 100 * time.Millisecond
	pauseSeen     = rereadInterval + 2*time.Second
)

// checkPaused: a paused webhook gets nothing but what a user sends by hand.
func (w *world) checkPaused(a *Attempt, h *simWebhook) {
	if !h.paused || a.Source == Retry && h.deliveries[a.Position].byHand {
		return
	}
	switch passed := w.now.Sub(h.pausedAt); {
	case a.Endpoint.Paused:
		w.t.Fatalf("%v: event %d is sent by a process that knows of the pause", h.key, a.Position)
	case a.Endpoint.Epoch >= h.epoch:
		w.t.Fatalf("%v: event %d is sent under the epoch of the pause", h.key, a.Position)
	case passed > pauseSeen && !w.faulty:
		w.t.Fatalf("%v: event %d is sent %v after the webhook was paused", h.key, a.Position, passed)
	}
}

// TestPausedWebhookGetsNothing pauses webhooks in a world without faults: soon nothing is
// sent to them, whatever happens, and what waited is sent in order once they are resumed.
// The health of one that is paused does not change but by a success.
func TestPausedWebhookGetsNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.cfg.Retention = 24 * time.Hour
		for i := range rapid.IntRange(1, 3).Draw(t, "webhooks") {
			w.addWebhook(Key{"w", fmt.Sprintf("wh%d", i)}, receiver(rapid.IntRange(0, 3).Draw(t, "receiver")))
		}
		for range rapid.IntRange(1, 3).Draw(t, "processes") {
			w.start()
		}
		h := w.anyWebhook()
		w.publish("w", rapid.SampledFrom([]int{1, 30, 300}).Draw(t, "before"))
		w.run(time.Duration(rapid.Int64Range(0, int64(3*time.Minute)).Draw(t, "until paused")))
		if !h.on { // it has failed for too long
			return
		}
		w.pause(h, true)
		w.run(pauseNotified)
		if h.receiver == hangs { // its last attempts end
			w.run(simTimeout)
		}
		w.run(time.Second) // and are recorded
		position, known, health := h.position, attemptsOf(h), fmt.Sprint(h.health)
		w.publish("w", rapid.IntRange(0, 200).Draw(t, "while paused"))
		w.run(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "paused")))
		if !h.on || !h.paused {
			t.Fatalf("%v did not stay paused", h.key)
		}
		if h.position != position || attemptsOf(h) != known || fmt.Sprint(h.health) != health {
			t.Fatalf("while paused the cursor went from %d to %d, attempts from %d to %d, the health from %s to %v", position, h.position, known, attemptsOf(h), health, h.health)
		}
		w.finish()
	})
}

// attemptsOf counts the attempts to a webhook.
func attemptsOf(h *simWebhook) (n int) {
	for _, d := range h.deliveries {
		n += d.attempts
	}
	return n
}

// TestPausedDuringAttempts: attempts that end after their webhook was paused are tried again
// after resuming, under an epoch that is not sent while it is paused. Their failures do not
// count; a success does. The cursor, which others may count from, stays.
func TestPausedDuringAttempts(t *testing.T) {
	t.Parallel()
	b := newBench(func(c *Config) { c.Policy = policy.Policy{Schedule: policy.DefaultSchedule(), TurnOffAfter: time.Hour} })
	q := b.hold("wh", func(w *Loaded) { w.Endpoint.Kept, w.Health.FailingSince = 1, start.Add(-time.Minute) })
	list, _ := b.takeStarted()
	q.outdated(&Loaded{Key: q.key, Endpoint: &Endpoint{Epoch: 2, Version: 2, Kept: 1, Paused: true}, Health: q.health.Health})
	b.evict(q)
	b.step(Attempted{Attempt: list[0], Result: costly()})
	if list[0].state != policy.Pending || q.health.unsaved || len(q.health.Events) > 0 {
		t.Errorf("a failure: the delivery is %s, the health %+v", list[0].state, q.health)
	}
	b.step(Attempted{Attempt: list[1], Result: success()})
	if list[1].state != policy.Succeeded || !q.health.unsaved || !q.health.FailingSince.IsZero() {
		t.Errorf("a success: the delivery is %s, the health %+v", list[1].state, q.health)
	}
	if c := q.takeCursor(); c.Epoch >= 0 || c.Version >= 0 {
		t.Errorf("the cursor moves: %+v", c)
	}
	r := &Record{}
	r.addAttempt(list[0])
	byHand := &Attempt{queue: q, Endpoint: q.endpoint}
	r.addAttempt(byHand)
	if r.Attempts[0].Epoch != 1 || r.Attempts[1].Epoch != 1 {
		t.Errorf("what is tried again is of the epochs %d and %d, want 1: the present one is sent while paused", r.Attempts[0].Epoch, r.Attempts[1].Epoch)
	}
}

// TestPausedBeforeItIsTurnedOff: a webhook that somebody pauses before it could be turned
// off stays on, and what is pending stays pending.
func TestPausedBeforeItIsTurnedOff(t *testing.T) {
	t.Parallel()
	b := newBench(func(c *Config) {
		c.Policy = policy.Policy{Schedule: policy.DefaultSchedule(), TurnOffAfter: 9 * time.Minute}
	})
	q := b.hold("wh", func(w *Loaded) {
		w.Endpoint.Kept, w.Health = 1, policy.Health{FailingSince: start.Add(-10 * time.Minute), Memory: policy.Memory{Events: []int64{1_000_001}}}
	})
	list, _ := b.takeStarted()
	b.step(Attempted{Attempt: list[0], Result: costly()})
	if len(b.results.changes) != 1 || !q.health.turningOff {
		t.Fatal("it is not to be turned off")
	}
	change := b.results.changes[0]
	b.step(HealthChanged{change}) // but it was paused before
	b.step(Attempted{Attempt: list[1], Result: costly()})
	if list[0].state != policy.Pending || list[1].state != policy.Pending {
		t.Errorf("the deliveries are %s and %s, want pending", list[0].state, list[1].state)
	}
}
