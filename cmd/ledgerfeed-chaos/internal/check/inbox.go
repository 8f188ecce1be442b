package check

import (
	"slices"
	"sync"
	"time"
)

// Message is a webhook message as a receiver got it.
type Message struct {
	EventID, Body string
	Position      int64 // that it carried
	At            time.Time
	Signed        bool
	Accepted      bool // answered with 2xx, as far as the receiver knows
}

// Inbox is what one webhook's receiver got. It is safe for concurrent use.
type Inbox struct {
	Workspace, WebhookID string

	mu       sync.Mutex
	accepted map[string][]arrival           // by event id
	carried  map[string]map[int64]time.Time // by event id: when each position was last seen
	unsigned int
	attempts int
}

// arrival is one acceptance of an event.
type arrival struct {
	at   time.Time
	body string
}

// NewInbox makes an empty Inbox.
func NewInbox(workspace string) *Inbox {
	return &Inbox{Workspace: workspace, accepted: map[string][]arrival{}, carried: map[string]map[int64]time.Time{}}
}

// Take notes a message.
func (b *Inbox) Take(m Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attempts++
	if !m.Signed {
		b.unsigned++
	}
	if b.carried[m.EventID] == nil {
		b.carried[m.EventID] = map[int64]time.Time{}
	}
	b.carried[m.EventID][m.Position] = m.At
	if !m.Accepted {
		return
	}
	list := b.accepted[m.EventID]
	body := m.Body
	if len(list) > 0 && list[0].body == body {
		body = list[0].body // it is kept once
	}
	b.accepted[m.EventID] = append(list, arrival{m.At, body})
}

// Has tells whether an event was accepted.
func (b *Inbox) Has(eventID string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.accepted[eventID]) > 0
}

// Counts are how many attempts were made, how many events were accepted, and how
// many acceptances were repeats.
func (b *Inbox) Counts() (attempts, events, repeats int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, list := range b.accepted {
		events++
		repeats += len(list) - 1
	}
	return b.attempts, events, repeats
}

// Missing returns the events of the log that were not accepted as it has them.
func (b *Inbox) Missing(l *Log) (missing []Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range l.Public[b.Workspace] {
		if e.Type != "test.ping" && !slices.ContainsFunc(b.accepted[e.ID], func(a arrival) bool { return a.body == e.JSON }) {
			missing = append(missing, e)
		}
	}
	return missing
}

// Check holds a receiver's messages against the log. Repeats may be as many as were
// under way at disturbances, each a moment at which attempts could end without a
// record of their result.
func (b *Inbox) Check(l *Log, h *History, disturbances []time.Time, f *Findings) {
	for _, e := range b.Missing(l) {
		f.Add(RuleDelivered, "%s of %s, position %d, never arrived at %s", e.ID, b.Workspace, e.Position, b.WebhookID)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unsigned > 0 {
		f.Add(RuleDelivered, "%d messages to %s of %s had no right signature", b.unsigned, b.WebhookID, b.Workspace)
	}
	losses := h.Losses()
	bodies := map[string]string{}
	for _, e := range l.Public[b.Workspace] {
		bodies[e.ID] = e.JSON
		b.checkPositions(&e, losses, f)
	}
	repeats := 0
	for id, list := range b.accepted {
		body, there := bodies[id]
		switch {
		case there:
			b.checkForms(id, body, losses, f)
		case !h.LostTo(b.Workspace, id):
			f.Add(RuleDelivered, "%s arrived at %s, which the log does not have", id, b.WebhookID)
		}
		if !rewound(list, losses) {
			repeats += len(list) - 1
		}
	}
	if most := underWay * (len(disturbances) + 1); repeats > most {
		f.Add(RuleDuplicates, "%d repeats at %s of %s, at most %d could be under way", repeats, b.WebhookID, b.Workspace, most)
	}
}

// lateArrival is how long after a loss messages of the log that is gone may arrive.
const lateArrival = 10 * time.Second

// checkForms checks that an event arrived in no other form than the log has it. Another
// one may have come before a loss: the log that is gone had the entry at another time.
func (b *Inbox) checkForms(id, body string, losses []Loss, f *Findings) {
	for _, a := range b.accepted[id] {
		if a.body != body && !slices.ContainsFunc(losses, func(l Loss) bool { return a.at.Before(l.Over.Add(lateArrival)) }) {
			f.Add(RuleDelivered, "%s arrived at %s as %s, want %s", id, b.WebhookID, a.body, body)
			return
		}
	}
}

// checkPositions checks that the messages of an event carried its position. Another one may
// have come before a loss: the log that is gone had the entry elsewhere.
func (b *Inbox) checkPositions(e *Event, losses []Loss, f *Findings) {
	for position, at := range b.carried[e.ID] {
		if position != e.Position && !slices.ContainsFunc(losses, func(l Loss) bool { return at.Before(l.Over.Add(lateArrival)) }) {
			f.Add(RulePositions, "%s arrived at %s with the position %d, want %d", e.ID, b.WebhookID, position, e.Position)
		}
	}
}

// underWay is the bound of messages under way for one webhook
// (docs/contract/decisions.md, "Webhooks").
const underWay = 10

// rewound tells whether the log became an older one between the first and the last
// arrival of an event, which sends it again.
func rewound(list []arrival, losses []Loss) bool {
	byTime := func(a, b arrival) int { return a.at.Compare(b.at) }
	first, last := slices.MinFunc(list, byTime).at, slices.MaxFunc(list, byTime).at
	return slices.ContainsFunc(losses, func(l Loss) bool { return first.Before(l.At) && !last.Before(l.At) })
}
