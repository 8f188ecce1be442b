package statement

import (
	"crypto/sha256"
	"fmt"
	"hash"

	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
)

// event is an event of the day, with what is stored about its delivery.
type event struct {
	position int64
	id       string
	state    *policy.State // of its delivery; nil: no attempt was recorded
	sequence *int64        // its number; nil: it has none
	underWay bool          // an attempt may be under way that is not recorded
}

// standing is how far a webhook has come in its log.
type standing struct {
	off           bool
	turnedOn      bool  // it was turned on again since the day began
	cursor        int64 // events up to here were sent or passed over
	replayed      int64 // while missed events are sent: those up to here were looked at,
	replayedUntil int64 // and those up to here will be
}

// stateOf says what became of an event.
func (s *standing) stateOf(e *event) State {
	if e.state != nil {
		switch *e.state {
		case policy.Succeeded:
			return Delivered
		case policy.Failed:
			return Failed
		case policy.Cancelled:
			return Cancelled
		case policy.Pending:
			return Pending
		}
	}
	switch {
	case e.underWay:
		return Waiting
	case s.off:
		return NotSentOff
	case e.position > s.cursor, e.position > s.replayed && e.position <= s.replayedUntil:
		return Waiting
	case s.turnedOn:
		return NotSentOff
	}
	return NotSentOther
}

// tally counts a day's events, which come in the order of their numbers.
type tally struct {
	statement              *Statement
	standing               standing
	delivered, undelivered hash.Hash
}

func newTally(s *Statement, at standing) *tally {
	return &tally{s, at, sha256.New(), sha256.New()}
}

func (t *tally) add(e *event) {
	s, u := t.statement, Undelivered{EventID: e.id, State: t.standing.stateOf(e)}
	if e.sequence != nil {
		u.Sequence = *e.sequence
		if s.Numbered == 0 {
			s.First = u.Sequence
		}
		s.Last = u.Sequence
		s.Numbered++
	}
	*s.count(u.State)++
	if e.state != nil {
		s.Sent++
	}
	if u.State == Delivered {
		fmt.Fprint(t.delivered, u.line())
		return
	}
	fmt.Fprint(t.undelivered, u.line())
	if len(s.Undelivered) < MaxListed {
		s.Undelivered = append(s.Undelivered, u)
	}
}

// count is the count of a state.
func (s *Statement) count(of State) *int64 {
	switch of {
	case Delivered:
		return &s.Delivered
	case Failed:
		return &s.Failed
	case Cancelled:
		return &s.Cancelled
	case Pending:
		return &s.Pending
	case Waiting:
		return &s.Waiting
	case NotSentOff:
		return &s.NotSentOff
	case NotSentOther:
	}
	return &s.NotSentOther
}

// end writes the sums.
func (t *tally) end() {
	t.delivered.Sum(t.statement.DeliveredSum[:0])
	t.undelivered.Sum(t.statement.UndeliveredSum[:0])
}
