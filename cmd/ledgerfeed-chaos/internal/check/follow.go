package check

import (
	"maps"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Sight is what a key may see.
type Sight struct {
	Pay, Margin bool
}

func (s Sight) String() string {
	switch {
	case s.Margin:
		return "pay+margin"
	case s.Pay:
		return "pay"
	}
	return "plain"
}

// Follow is what one follower of a list or of the events has. It belongs to one
// goroutine.
type Follow struct {
	Workspace string
	List      string // such as invoices; events: the events
	Sight     Sight
	Limit     int
	Removed   bool // it is told of rows that leave, with include=removed

	Rows   map[string]string // by id, as last shown
	Events []Seen            // in the order in which they came, since the last Restart
	Begun  time.Time         // when this pass began

	Told, Pages int
}

// Seen is an event as a follower got it.
type Seen struct{ ID, JSON string }

// Name says which follower it is.
func (w *Follow) Name() string {
	name := w.Workspace + " " + w.List + " (" + w.Sight.String()
	if w.Removed {
		name += ", removed"
	}
	return name + ")"
}

// Restart begins a new pass, because the follower was told that it has to.
func (w *Follow) Restart(now time.Time) {
	w.Rows, w.Events, w.Begun = map[string]string{}, nil, now
}

// ListEvents is the List of followers of events.
const ListEvents = "events"

// CheckEvents checks what a follower of events has against the log: every event that
// it may see, once and in order, byte by byte. What came besides must have been lost
// by a fault.
func (l *Log) CheckEvents(w *Follow, h *History, f *Findings) {
	var want []Event
	for _, e := range l.Public[w.Workspace] {
		if !e.Pay || w.Sight.Pay {
			want = append(want, e)
		}
	}
	times := map[string]int{}
	var kept []Seen
	for _, s := range w.Events {
		times[s.ID]++
		if times[s.ID] == 2 {
			f.Add(RuleEvents, "%s: %s came twice", w.Name(), s.ID)
		}
		switch {
		case l.Position(w.Workspace, s.ID) > 0:
			if times[s.ID] == 1 {
				kept = append(kept, s)
			}
		case !h.LostTo(w.Workspace, s.ID):
			f.Add(RuleEvents, "%s: %s came, which the log does not have", w.Name(), s.ID)
		}
	}
	have := map[string]string{}
	for _, s := range kept {
		have[s.ID] = s.JSON
	}
	complete := true
	for _, e := range want {
		got, there := have[e.ID]
		if !there {
			complete = false
			f.Add(RuleEvents, "%s: %s at position %d of %d never came (%d of %d did)", w.Name(), e.ID, e.Position, len(l.Entries[w.Workspace]), len(kept), len(want))
		} else if got != e.JSON {
			f.Add(RuleEvents, "%s: %s came as %s, want %s", w.Name(), e.ID, got, e.JSON)
		}
	}
	if len(kept) > len(want) {
		f.Add(RuleEvents, "%s: %d events came that this key may not see", w.Name(), len(kept)-len(want))
	}
	if !complete || len(kept) != len(want) {
		return
	}
	for i := range want {
		if kept[i].ID != want[i].ID {
			f.Add(RuleEvents, "%s: %s came as number %d, where %s belongs", w.Name(), kept[i].ID, i+1, want[i].ID)
			return
		}
	}
}

// HeldRows checks that a follower of a list holds every row in its newest state.
// One that is told of rows that leave holds no others. One that is not may still hold
// rows that have left.
func HeldRows(w *Follow, s *domain.State, h *History, f *Findings) {
	want, ever := Rows(s, w.List, w.Sight)
	for _, id := range slices.Sorted(maps.Keys(want)) {
		switch got, there := w.Rows[id]; {
		case !there:
			f.Add(RuleRows, "%s: %s was never shown", w.Name(), id)
		case got != want[id]:
			f.Add(RuleRows, "%s: %s is held as %s, want %s", w.Name(), id, got, want[id])
		}
	}
	if w.Removed {
		for _, id := range slices.Sorted(maps.Keys(w.Rows)) {
			if want[id] == "" {
				f.Add(RuleRows, "%s: %s is held, which is not in the list any more", w.Name(), id)
			}
		}
		return
	}
	if h != nil && len(h.Losses()) > 0 {
		return // a row may be of the tail that was lost
	}
	for id := range w.Rows {
		if !ever[id] && want[id] == "" && s != nil && !mayLeave(w.List) {
			f.Add(RuleRows, "%s: %s is held, which does not exist", w.Name(), id)
		}
	}
}

// mayLeave tells whether rows of a list can be deleted or hidden.
func mayLeave(list string) bool { return list == "time-entries" || list == "charges" }

// Rows returns the rows of a list as a key sees them, by id, and which ids the state
// has at all.
func Rows(s *domain.State, list string, sight Sight) (shown map[string]string, ever map[string]bool) {
	shown, ever = map[string]string{}, map[string]bool{}
	add := func(id string, visible bool, f domain.Fragments) {
		ever[id] = true
		if !visible {
			return
		}
		if !sight.Pay {
			f.Pay = ""
		}
		if !sight.Margin {
			f.Margin = ""
		}
		shown[id] = f.Row()
	}
	switch list {
	case "invoices":
		s.Invoices.All(func(r *domain.Invoice) { add(r.ID, r.Shown, r.Fragments()) })
	case "charges":
		s.Charges.All(func(r *domain.Charge) { add(r.ID, r.BilledToClient || sight.Pay, r.Fragments()) })
	case "time-entries":
		s.TimeEntries.All(func(r *domain.TimeEntry) { add(r.ID, true, r.Fragments()) })
	case "payments":
		s.Payments.All(func(r *domain.Payment) {
			add(r.ID, r.Direction == domain.ReceivedFromClient || sight.Pay, r.Fragments())
		})
	case "clients":
		s.Clients.All(func(r *domain.Client) { add(r.ID, true, r.Fragments()) })
	case "contractors":
		s.Contractors.All(func(r *domain.Contractor) { add(r.ID, true, r.Fragments()) })
	}
	return shown, ever
}

// Lists are the lists of rows.
func Lists() []string {
	return []string{"invoices", "charges", "time-entries", "payments", "clients", "contractors"}
}
