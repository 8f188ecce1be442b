package check

import (
	"slices"
	"sync"
	"time"
)

// Message is a webhook message as a receiver got it.
type Message struct {
	EventID, Body string
	At            time.Time
	Signed        bool
	Accepted      bool // answered with 2xx, as far as the receiver knows
}

// Inbox is what one webhook's receiver got. It is safe for concurrent use.
type Inbox struct {
	Workspace, WebhookID string

	mu       sync.Mutex
	accepted map[string][]time.Time // by event id
	bodies   map[string]string      // by event id, as first accepted
	unsigned int
	attempts int
}

// NewInbox makes an empty Inbox.
func NewInbox(workspace string) *Inbox {
	return &Inbox{Workspace: workspace, accepted: map[string][]time.Time{}, bodies: map[string]string{}}
}

// Take notes a message.
func (b *Inbox) Take(m Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attempts++
	if !m.Signed {
		b.unsigned++
	}
	if !m.Accepted {
		return
	}
	b.accepted[m.EventID] = append(b.accepted[m.EventID], m.At)
	if len(b.accepted[m.EventID]) == 1 {
		b.bodies[m.EventID] = m.Body
	}
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
	for _, at := range b.accepted {
		events++
		repeats += len(at) - 1
	}
	return b.attempts, events, repeats
}

// Missing returns the events of the log that were not accepted.
func (b *Inbox) Missing(l *Log) (missing []Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range l.Public[b.Workspace] {
		if e.Type != "test.ping" && len(b.accepted[e.ID]) == 0 {
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
	bodies := map[string]string{}
	for _, e := range l.Public[b.Workspace] {
		bodies[e.ID] = e.JSON
	}
	repeats := 0
	for id, at := range b.accepted {
		body, there := bodies[id]
		switch {
		case there && body != b.bodies[id]:
			f.Add(RuleDelivered, "%s arrived at %s as %s, want %s", id, b.WebhookID, b.bodies[id], body)
		case !there && !h.LostTo(b.Workspace, id):
			f.Add(RuleDelivered, "%s arrived at %s, which the log does not have", id, b.WebhookID)
		}
		if !rewound(at, h.Losses()) {
			repeats += len(at) - 1
		}
	}
	if most := underWay * (len(disturbances) + 1); repeats > most {
		f.Add(RuleDuplicates, "%d repeats at %s of %s, at most %d could be under way", repeats, b.WebhookID, b.Workspace, most)
	}
}

// underWay is the bound of messages under way for one webhook
// (docs/contract/decisions.md, "Webhooks").
const underWay = 10

// rewound tells whether the log became an older one between the first and the last
// arrival of an event, which sends it again.
func rewound(at []time.Time, losses []Loss) bool {
	first, last := slices.MinFunc(at, time.Time.Compare), slices.MaxFunc(at, time.Time.Compare)
	return slices.ContainsFunc(losses, func(l Loss) bool { return first.Before(l.At) && !last.Before(l.At) })
}
