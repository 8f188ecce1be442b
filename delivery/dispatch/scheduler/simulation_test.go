package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRandomHistories runs random histories in virtual time: bursts of events,
// receivers that fail or hang, attempts that cannot be made, statements that fail or whose
// answers are lost, processes that start, end, stop for longer than their lease, and are killed, webhooks
// that are turned off, turned on, sent what they missed, paused, resumed and choose other
// types or another address. The world checks after every step, and at the end, that nothing is lost or sent
// before its time.
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.Bool().Draw(t, "faulty"))
		for i := range rapid.IntRange(1, 6).Draw(t, "webhooks") {
			k := Key{fmt.Sprintf("w%d", rapid.IntRange(0, 2).Draw(t, "workspace")), fmt.Sprintf("wh%d", i)}
			w.addWebhook(k, receiver(rapid.IntRange(0, 3).Draw(t, "receiver")))
		}
		for _, name := range slices.Sorted(maps.Keys(w.logs)) { // history that is brought in after the webhooks were added
			log := w.logs[name]
			for range rapid.SampledFrom([]int{0, 0, 3, ReadAhead + 40}).Draw(t, "history") {
				log.published = append(log.published, w.now.Add(-w.cfg.Retention-time.Second))
			}
		}
		for range rapid.IntRange(1, 3).Draw(t, "processes") {
			w.start()
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			w.randomStep()
			w.run(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "pass")))
		}
		w.finish()
	})
}

func (w *world) randomStep() {
	t := w.t
	h := w.anyWebhook()
	switch rapid.IntRange(0, 18).Draw(t, "step") {
	case 18:
		w.move(h)
	case 17:
		if len(w.processes) > 0 {
			w.stop(w.processes[w.random.IntN(len(w.processes))])
		}
	case 16:
		w.edit(h)
	case 13:
		w.pause(h, rapid.Bool().Draw(t, "notified"))
	case 14:
		w.resume(h)
	case 15:
		w.retryNow(h, int64(rapid.IntRange(1, 20).Draw(t, "position")))
	case 12:
		h.locked = w.now.Add(time.Duration(rapid.IntRange(1, 120).Draw(t, "locked")) * time.Second)
	case 0:
		if len(w.processes) > 0 && w.faulty {
			w.kill(w.processes[w.random.IntN(len(w.processes))])
		}
	case 1:
		if len(w.processes) < 4 {
			w.start()
		}
	case 2:
		if len(w.processes) > 0 && w.faulty {
			p := w.processes[w.random.IntN(len(w.processes))]
			p.paused = w.now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second)
		}
	case 3:
		h.dead = !h.dead
	case 4:
		w.turnOn(h, rapid.Bool().Draw(t, "send missed"))
	case 5:
		w.resend(h, int64(rapid.IntRange(1, 20).Draw(t, "position")))
	case 6: // a user changes something else
		h.version++
		w.notify(h.key.WorkspaceID)
	default:
		w.publish(h.key.WorkspaceID, rapid.IntRange(1, 30).Draw(t, "events"))
	}
}

func (w *world) anyWebhook() *simWebhook {
	return w.webhooks[rapid.SampledFrom(w.keys()).Draw(w.t, "webhook")]
}

// TestNobodyWaitsForOthers runs healthy webhooks beside ones that fail and hang,
// without faults. A healthy webhook that has something to do and nothing under way
// starts within a moment. Sweeps are rare and find only webhooks that nobody holds,
// so that they do not hide a missing wake-up.
func TestNobodyWaitsForOthers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.cfg.Bound, w.cfg.Limit, w.rareSweeps = 4, 30, true // enough for all, not for all at once
		healthy := map[Key]bool{}
		for i := range rapid.IntRange(6, 8).Draw(t, "webhooks") {
			k := Key{fmt.Sprintf("w%d", rapid.IntRange(0, 2).Draw(t, "workspace")), fmt.Sprintf("wh%d", i)}
			r := receiver(rapid.IntRange(0, 3).Draw(t, "receiver"))
			healthy[k] = r == answers || r == failsSometimes
			w.addWebhook(k, r)
		}
		for range rapid.IntRange(1, 3).Draw(t, "processes") {
			w.start()
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			h := w.anyWebhook()
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 7:
				w.move(h)
			case 6:
				h.locked = w.now.Add(time.Duration(rapid.IntRange(1, 120).Draw(t, "locked")) * time.Second)
			case 0:
				if len(w.processes) < 4 {
					w.start()
				}
			case 1:
				w.resend(h, int64(rapid.IntRange(1, 20).Draw(t, "position")))
			case 2:
				w.publish(h.key.WorkspaceID, 300) // more than is read at a time
			default:
				w.publish(h.key.WorkspaceID, rapid.IntRange(1, 30).Draw(t, "events"))
			}
			pass := time.Duration(rapid.Int64Range(0, int64(5*time.Second)).Draw(t, "pass"))
			for waited := time.Duration(0); waited < pass; waited += 50 * time.Millisecond {
				w.run(50 * time.Millisecond)
				w.checkNobodyIsStuck(healthy)
			}
		}
		w.finish()
	})
}

// promptly is how long a webhook may have work and nothing under way: a quiet
// workspace is claimed again after 200 ms, and statements take up to 50 ms.
const promptly = time.Second

func (w *world) checkNobodyIsStuck(healthy map[Key]bool) {
	for _, k := range w.keys() {
		h := w.webhooks[k]
		busy := !healthy[k] || !w.hasWork(h) || w.now.Before(h.locked)
		if w.free(h) { // a retry that is due is found by a sweep
			busy = busy || w.logs[k.WorkspaceID].visible() == h.position
		}
		for _, p := range w.processes {
			if _, coolingDown := p.scheduler.claims.coolingDown[k]; coolingDown && w.free(h) {
				busy = true // a process left it to others
			}
			if q := p.scheduler.queues[k]; q != nil && (q.unrecorded > 0 || q.live.saved < q.done()) {
				busy = true // or only its cursor is to be stored
			}
		}
		switch {
		case busy:
			h.idleSince = time.Time{}
		case h.idleSince.IsZero():
			h.idleSince = w.now
		case w.now.Sub(h.idleSince) > promptly:
			w.t.Fatalf("%v has something to do and nothing under way for %v; held by %q", k, w.now.Sub(h.idleSince), h.holder)
		}
	}
}
