package check

import (
	"slices"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Offer is one entry that a producer wants in the log, and what became of it.
type Offer struct {
	Workspace, ID string
	Type, Data    string
	Producer      string
	Outbox        bool // the producer writes a row of its own in the same transaction

	Began time.Time // of the first try
	Ended time.Time // of the try that was acknowledged; zero: none was
	Tries int

	Position int64 // as acknowledged; 0: not told
	Refused  string
	Lost     bool // acknowledged, and in the tail that a fault destroyed
}

// Acknowledged tells whether the producer was told that the entry is in the log.
func (o *Offer) Acknowledged() bool { return !o.Ended.IsZero() }

type key struct{ workspace, id string }

// History is what producers did. It is safe for concurrent use; an Offer belongs to
// its producer until it is acknowledged.
type History struct {
	mu     sync.Mutex
	offers []*Offer
	byKey  map[key]*Offer
	losses []Loss
}

// Loss is a moment after which the log is an older one: a replica without the last
// commits has taken over, or a backup was restored.
type Loss struct {
	At    time.Time        // when it began
	Over  time.Time        // when the older log was there
	Heads map[string]int64 // by workspace, what was left
}

// NewHistory makes an empty History.
func NewHistory() *History { return &History{byKey: map[key]*Offer{}} }

// Offer notes entries before they are offered for the first time. Every draft has an
// id.
func (h *History) Offer(producer string, now time.Time, outbox bool, drafts []domain.Draft) []*Offer {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]*Offer, len(drafts))
	for i := range drafts {
		d := &drafts[i]
		o := &Offer{Workspace: d.WorkspaceID, ID: d.ID, Type: d.Type, Data: d.Data, Producer: producer, Outbox: outbox, Began: now}
		list[i] = o
		h.offers = append(h.offers, o)
		h.byKey[key{o.Workspace, o.ID}] = o
	}
	return list
}

// Acknowledge notes that an entry was acknowledged; position 0: the producer was not
// told where.
func (h *History) Acknowledge(o *Offer, now time.Time, position int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o.Ended, o.Position = now, position
}

// Lose notes that the log became an older one. No producer may be at work meanwhile.
// What was acknowledged and lies after the heads is lost by the fault.
func (h *History) Lose(at, over time.Time, heads map[string]int64, held func(workspace, id string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.losses = append(h.losses, Loss{at, over, heads})
	for _, o := range h.offers {
		if !o.Acknowledged() || o.Lost {
			continue
		}
		if o.Position > heads[o.Workspace] || o.Position == 0 && !held(o.Workspace, o.ID) {
			o.Lost = true
		}
	}
}

// CheckHeld checks that what was acknowledged so far is held. It is called right before
// the log becomes an older one, because afterwards nobody can tell what that has
// destroyed from what was never there.
func (h *History) CheckHeld(held func(workspace, id string) bool, f *Findings) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.offers {
		if o.Acknowledged() && !o.Lost && !held(o.Workspace, o.ID) {
			f.Add(RuleAppended, "%s acknowledged %s of %s at %s (position %d), and the log does not have it", o.Producer, o.ID, o.Workspace, o.Ended.Format(time.TimeOnly), o.Position)
		}
	}
}

// Losses returns what Lose was called with.
func (h *History) Losses() []Loss {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.losses)
}

// LostSince tells whether the log has become an older one since a moment.
func (h *History) LostSince(at time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.losses) > 0 && !h.losses[len(h.losses)-1].At.Before(at)
}

// Counts are how many entries were offered, acknowledged, offered more than once,
// refused, and lost by a fault.
func (h *History) Counts() (offered, acknowledged, again, refused, lost int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.offers {
		offered++
		switch {
		case o.Acknowledged():
			acknowledged++
		case o.Refused != "":
			refused++
		}
		if o.Tries > 1 {
			again++
		}
		if o.Lost {
			lost++
		}
	}
	return offered, acknowledged, again, refused, lost
}

// LostTo tells whether an entry of this id was acknowledged and lost by a fault.
func (h *History) LostTo(workspace, id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.byKey[key{workspace, id}]
	return o != nil && (o.Lost || !o.Acknowledged())
}

// all returns the offers in the order in which they began.
func (h *History) all() []*Offer {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.offers)
}
