package check

import (
	"slices"
	"time"
)

// numbers are the numbers that the messages to one webhook carried.
type numbers struct {
	seen     map[numbered]time.Time // when each was last seen
	accepted map[int64]bool
}

// numbered is an event with the number of a message of it.
type numbered struct {
	eventID string
	number  int64
}

func newNumbers() numbers {
	return numbers{seen: map[numbered]time.Time{}, accepted: map[int64]bool{}}
}

// take notes a message, accepted or not.
func (n *numbers) take(m *Message) {
	if m.Sequence == 0 {
		return // a test ping
	}
	n.seen[numbered{m.EventID, m.Sequence}] = m.At
	if m.Accepted {
		n.accepted[m.Sequence] = true
	}
}

// check finds events with two numbers, numbers of two events, and numbers that no accepted
// message had. Where the log was lost in part, numbers begin again from those that are
// left, so only messages from after that count, and gaps do not.
func (n *numbers) check(webhookID string, losses []Loss, f *Findings) {
	numberOf, eventOf := map[string]int64{}, map[int64]string{}
	for k, at := range n.seen {
		if slices.ContainsFunc(losses, func(l Loss) bool { return at.Before(l.Over.Add(lateArrival)) }) {
			continue
		}
		if other, twice := numberOf[k.eventID]; twice {
			f.Add(RuleNumbers, "%s arrived at %s with numbers %d and %d", k.eventID, webhookID, other, k.number)
		}
		if other, twice := eventOf[k.number]; twice {
			f.Add(RuleNumbers, "number %d arrived at %s with %s and %s", k.number, webhookID, other, k.eventID)
		}
		numberOf[k.eventID], eventOf[k.number] = k.number, k.eventID
	}
	if len(losses) > 0 {
		return
	}
	highest := int64(0)
	for number := range eventOf {
		highest = max(highest, number)
	}
	for number := int64(1); number <= highest; number++ {
		if !n.accepted[number] {
			f.Add(RuleNumbers, "number %d of %d never arrived at %s", number, highest, webhookID)
		}
	}
}
