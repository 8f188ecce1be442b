package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
)

// The simulated database: what the statements of package dispatch do, on maps.

func (p *process) takeLease(old string) {
	w := p.world
	if p.dead {
		return
	}
	delete(w.leases, old)
	w.serial++
	p.lease = fmt.Sprintf("lease %d of process %d", w.serial, p.name)
	w.leases[p.lease] = w.now.Add(simLease)
	p.lastLive = map[Key]int64{}
	p.tell(LeaseTaken{Lease: p.lease, At: w.now})
}

func (p *process) leaseIsOver(lease string) bool {
	until, ok := p.world.leases[lease]
	return !ok || !p.world.now.Before(until)
}

// renew happens every sixth of the lease's time.
func (p *process) renew() {
	w := p.world
	if p.dead {
		return
	}
	w.after(simLease/6, p.renew)
	if w.now.Before(p.paused) || w.chance(10) {
		return
	}
	lease, at := p.lease, w.now
	if p.leaseIsOver(lease) {
		p.tell(LeaseLost{Lease: lease})
		return
	}
	w.leases[lease] = w.now.Add(simLease)
	c := Census{}
	for l, until := range w.leases {
		if w.now.Before(until) {
			c.Processes++
		}
		for _, h := range w.webhooks {
			if h.holder == l {
				c.Held++
				if l == lease {
					c.Mine++
				}
			}
		}
	}
	w.after(w.takes(10*time.Millisecond), func() { p.tell(LeaseRenewed{Lease: lease, At: at, Census: c}) })
}

// free tells whether no living process holds a webhook.
func (w *world) free(h *simWebhook) bool {
	until, ok := w.leases[h.holder]
	return h.holder == "" || !ok || !w.now.Before(until)
}

// hasWork tells whether a webhook has something to do.
func (w *world) hasWork(h *simWebhook) bool {
	if h.sends() && (w.logs[h.key.WorkspaceID].visible() > h.position || h.replayTo > 0) {
		return true
	}
	for _, d := range h.deliveries {
		if d.state == policy.Pending && !d.next.After(w.now) && (h.sends() || d.epoch == h.epoch) {
			return true
		}
	}
	return false
}

// sweep happens every second.
func (p *process) sweep() {
	w := p.world
	if p.dead {
		return
	}
	every := time.Second
	if w.rareSweeps {
		every = 20 * time.Second
	}
	w.after(every, p.sweep)
	if w.now.Before(p.paused) || w.chance(5) {
		return
	}
	var found []Candidate
	for _, k := range slices.SortedFunc(maps.Keys(w.webhooks), Key.compare) {
		h := w.webhooks[k]
		if w.hasWork(h) && (h.holder == p.lease && !w.rareSweeps || w.free(h)) || h.paused && h.holder == p.lease {
			found = append(found, Candidate{Key: k, Visible: w.logs[k.WorkspaceID].visible()})
		}
	}
	p.tell(Found{Candidates: found})
}

func (h *simWebhook) endpoint() *Endpoint {
	var events []string
	if h.fewer {
		events = []string{"some"}
	}
	return &Endpoint{Address: "https://example.com", Events: events, On: h.sends(), Paused: h.paused, Version: h.version, Epoch: h.epoch, Kept: h.kept, AddressVersion: h.address, Secret: "s"}
}

func (h *simWebhook) loaded() Loaded {
	l := Loaded{Key: h.key, Endpoint: h.endpoint(), Health: h.health, Position: h.position, ReplayAfter: h.replayAfter, ReplayTo: h.replayTo}
	for position := range h.deliveries {
		if position > h.position {
			if l.Sent == nil {
				l.Sent = map[int64]struct{}{}
			}
			l.Sent[position] = struct{}{}
		}
	}
	return l
}

func (p *process) claim(c *Claim) {
	w := p.world
	if p.dead {
		return
	}
	if w.chance(10) {
		p.tell(ClaimFailed{Claim: c})
		return
	}
	answer := Claimed{Claim: c}
	for _, k := range slices.SortedFunc(maps.Keys(w.webhooks), Key.compare) {
		h := w.webhooks[k]
		asked := slices.Contains(c.WorkspaceIDs, k.WorkspaceID) || slices.Contains(c.Keys, k)
		if !asked || slices.Contains(c.Except, k) || !w.free(h) || !w.hasWork(h) || p.leaseIsOver(c.Lease) {
			continue
		}
		if answer.More = len(answer.Endpoints) == 3; answer.More { // a claim is bounded
			break
		}
		h.holder = c.Lease
		delete(p.lastLive, k)
		w.cancelOutdated(h)
		answer.Endpoints = append(answer.Endpoints, h.loaded())
	}
	if w.chance(10) { // the answer is lost: they are held in the database only
		p.tell(ClaimFailed{Claim: c})
		return
	}
	p.tell(answer)
}

func (w *world) cancelOutdated(h *simWebhook) {
	for _, d := range h.deliveries {
		if d.state == policy.Pending && d.epoch < h.kept {
			d.state = policy.Cancelled
		}
	}
}

func (p *process) reconcile(r Reconcile) {
	for _, h := range p.world.webhooks {
		if _, known := r.Known[h.key]; h.holder == r.Lease && !known {
			h.holder = ""
		}
	}
	p.tell(Reconciled{})
}

func (p *process) poll(poll *Poll) {
	w := p.world
	if p.dead {
		return
	}
	if w.chance(8) {
		w.after(250*time.Millisecond, func() { p.tell(PollFailed{Poll: poll}) })
		return
	}
	answer := Polled{Poll: poll, Results: make([]PollResult, len(poll.Requests)), Changed: map[Key]*Loaded{}}
	for i := range poll.Requests {
		r := &poll.Requests[i]
		h := w.webhooks[r.Key]
		if h == nil {
			continue
		}
		w.answer(h, r, &answer.Results[i])
		if h.version != r.Version {
			l := h.loaded()
			answer.Changed[r.Key] = &l
		}
	}
	w.after(w.takes(20*time.Millisecond), func() { p.tell(answer) })
}

func (w *world) answer(h *simWebhook, r *PollRequest, a *PollResult) {
	log := w.logs[h.key.WorkspaceID]
	a.Found, a.Visible, a.LiveTo, a.ReplayTo = true, log.visible(), r.After, r.ReplayAfter
	for p := r.After + 1; p <= a.Visible && len(a.Attempts[Live]) < r.LiveLimit; p++ {
		if a.LiveTo = p; h.fewer && isOptional(p) {
			continue
		}
		a.Attempts[Live] = append(a.Attempts[Live], &Attempt{Position: p, EventID: fmt.Sprint(p), Published: log.published[p-1]})
	}
	for _, p := range slices.Sorted(maps.Keys(h.deliveries)) {
		d := h.deliveries[p]
		switch {
		case d.state != policy.Pending || d.epoch < h.kept || !h.sends() && d.epoch != h.epoch:
		case d.next.After(w.now):
			if a.NextAttempt.IsZero() || d.next.Before(a.NextAttempt) {
				a.NextAttempt = d.next
			}
		case len(a.Attempts[Retry]) < r.RetryLimit:
			a.Attempts[Retry] = append(a.Attempts[Retry], &Attempt{
				Position: p, EventID: fmt.Sprint(p), CreatedAt: d.createdAt, Made: d.attempts, Before: d.before, Once: d.once,
			})
		}
	}
	for p := r.ReplayAfter + 1; r.ReplayTo > 0 && p <= r.ReplayTo && len(a.Attempts[Replay]) < r.ReplayLimit; p++ {
		if a.ReplayTo = p; h.fewer && isOptional(p) {
			continue
		}
		if d := h.deliveries[p]; d == nil {
			a.Attempts[Replay] = append(a.Attempts[Replay], &Attempt{Position: p, EventID: fmt.Sprint(p), Published: log.published[p-1]})
		} else if d.state == policy.Failed || d.state == policy.Cancelled {
			a.Attempts[Replay] = append(a.Attempts[Replay], &Attempt{
				Position: p, EventID: fmt.Sprint(p), Published: log.published[p-1], CreatedAt: d.createdAt, Made: d.attempts, Before: d.attempts,
			})
		}
	}
}

// record writes a record, perhaps after failures; one that was written although
// its answer was lost is written again.
func (p *process) record(r *Record) {
	w := p.world
	if p.dead {
		return
	}
	if w.chance(6) {
		if w.chance(2) && !p.leaseIsOver(r.Lease) && !w.isLocked(r) {
			w.write(r)
		}
		w.after(w.takes(2*time.Second), func() { p.record(r) })
		return
	}
	if p.leaseIsOver(r.Lease) {
		p.tell(LeaseLost{Lease: r.Lease}, Recorded{Record: r})
		return
	}
	parts, locked := []*Record{r}, []*Record(nil)
	if w.isLocked(r) {
		parts = r.Split()
	}
	for _, part := range parts {
		switch {
		case !w.isLocked(part):
			w.write(part)
			w.release(part)
		case r.Apart:
			w.after(time.Second, func() { p.record(r) })
			return
		default:
			locked = append(locked, part)
		}
	}
	w.after(w.takes(5*time.Millisecond), func() { p.tell(Recorded{Record: r, Locked: locked}) })
}

// isLocked tells whether a row that the record writes is locked.
func (w *world) isLocked(r *Record) bool {
	return slices.ContainsFunc(r.queues, func(q *queue) bool { return w.now.Before(w.webhooks[q.key].locked) })
}

func (w *world) release(r *Record) {
	for _, c := range r.Releases {
		h := w.webhooks[c.Key]
		if h.holder == r.Lease {
			h.holder = ""
			w.moveCursor(h, &c)
		}
	}
}

func (w *world) write(r *Record) {
	for i := range r.Attempts {
		a := &r.Attempts[i]
		h := w.webhooks[a.Key]
		d := h.deliveries[a.Position]
		switch {
		case a.Number == 1 && d == nil:
			d = &simDelivery{createdAt: a.CreatedAt}
			h.deliveries[a.Position] = d
		case d == nil || d.attempts != a.Number-1:
			continue // written before
		}
		d.attempts, d.state, d.before, d.once, d.byHand = a.Number, a.State, a.Before, false, false
		if a.State == policy.Pending {
			if d.next, d.epoch = a.Next, a.Epoch; a.AddressVersion != h.address && d.next.After(w.now) {
				d.next = w.now
			}
		}
	}
	for i := range r.Cursors {
		if h := w.webhooks[r.Cursors[i].Key]; h.holder == r.Lease {
			w.moveCursor(h, &r.Cursors[i])
		}
	}
	for i := range r.Health {
		if h := w.webhooks[r.Health[i].Key]; h.epoch == r.Health[i].Epoch && h.address == r.Health[i].AddressVersion {
			h.health = r.Health[i].Health
			w.checkHealth(h)
		}
	}
}

// moveCursor moves a webhook's cursor, which must not pass an event without a
// delivery.
func (w *world) moveCursor(h *simWebhook, c *CursorRecord) {
	if c.Epoch == h.epoch && c.Position > h.position {
		for position := max(h.position, h.from) + 1; position <= c.Position; position++ {
			passable := w.history(h.key.WorkspaceID, position) || h.edited && isOptional(position)
			if h.deliveries[position] == nil && !passable {
				w.t.Fatalf("%v: the cursor passes %d, which was not sent, on its way to %d", h.key, position, c.Position)
			}
		}
		h.position = c.Position
		h.expired += c.Expired
	}
	if c.Version == h.version && c.Replayed > h.replayAfter {
		h.expired += c.ReplayExpired
	}
	if c.Version == h.version && c.Replayed > 0 {
		if c.Replayed >= h.replayTo {
			h.replayAfter, h.replayTo = 0, 0
		} else {
			h.replayAfter = c.Replayed
		}
	}
}

func (p *process) changeHealth(c *HealthChange) {
	w := p.world
	if p.dead {
		return
	}
	h := w.webhooks[c.Key]
	if c.Change.TurnsOff() && h.sends() && h.epoch == c.Endpoint.Epoch && h.address == c.Endpoint.AddressVersion {
		if c.Since.Before(h.movedAt) {
			w.t.Fatalf("%v: turned off for failing since %v, and its address was changed at %v", h.key, c.Since, h.movedAt)
		}
		w.turnOff(h)
	}
	p.tell(HealthChanged{Change: c})
}

func (w *world) turnOff(h *simWebhook) {
	h.on, h.wasOff = false, true
	h.version++
	h.epoch++
	h.kept = h.epoch
	w.cancelOutdated(h)
}

// sends tells whether what there is to send is sent at once.
func (h *simWebhook) sends() bool { return h.on && !h.paused }

// isOptional tells whether the event at a position is of a type that is not always chosen.
func isOptional(position int64) bool { return position%3 == 0 }

// edit chooses other event types.
func (w *world) edit(h *simWebhook) {
	h.fewer, h.edited = !h.fewer, true
	h.version++
	w.notify(h.key.WorkspaceID)
}

// move is another address: the webhook starts anew, and what is pending is due.
func (w *world) move(h *simWebhook) {
	h.version++
	h.address, h.movedAt, h.health = h.version, w.now, policy.Health{}
	for _, d := range h.deliveries {
		if d.state == policy.Pending && d.next.After(w.now) {
			d.next = w.now
		}
	}
	w.notify(h.key.WorkspaceID)
}

// checkHealth: what the address before came to does not count.
func (w *world) checkHealth(h *simWebhook) {
	if since := h.health.FailingSince; !since.IsZero() && since.Before(h.movedAt.Truncate(time.Millisecond)) {
		w.t.Fatalf("%v: failing since %v, and its address was changed at %v", h.key, since, h.movedAt)
	}
}

// turnOn is what a user does; with sendMissed also the events since it went off.
func (w *world) turnOn(h *simWebhook, sendMissed bool) {
	if h.on {
		return
	}
	visible := w.logs[h.key.WorkspaceID].visible()
	h.on, h.health = true, policy.Health{}
	h.version++
	h.epoch++
	h.kept = h.epoch
	if sendMissed && visible > h.from {
		h.replayAfter, h.replayTo = h.from, visible
		h.position = visible
	} else {
		h.from, h.position = visible, visible
		h.replayAfter, h.replayTo = 0, 0
	}
	w.notify(h.key.WorkspaceID)
}

// resend is "Send again".
func (w *world) resend(h *simWebhook, position int64) {
	if d := h.deliveries[position]; d != nil && d.state != policy.Pending {
		d.state, d.once, d.resent, d.byHand, d.next, d.epoch = policy.Pending, true, true, true, w.now, h.epoch
		h.extra++ // it is meant to arrive again
		w.notify(h.key.WorkspaceID)
	}
}
