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
	answered *bool         // an attempt of the delivery succeeded; nil like state
	sequence *int64        // its number; nil: it has none
	underWay bool          // an attempt may be under way that is not recorded
	chosen   bool          // it is of a type that the webhook has chosen
}

// standing is how far a webhook has come in its log.
type standing struct {
	off           bool
	turnedOn      bool  // it was turned on again since the day began
	cursor        int64 // events up to here were sent or passed over
	replayed      int64 // while missed events are sent: those up to here were looked at,
	replayedUntil int64 // and those up to here will be
}

// missed tells whether an event is still to be looked at by "Send missed", which sends it
// unless it was delivered or is pending. Turning a webhook off and on again ends that.
func (s *standing) missed(e *event) bool {
	return !s.off && e.chosen && e.position > s.replayed && e.position <= s.replayedUntil
}

// stateOf says what became of an event.
func (s *standing) stateOf(e *event) State {
	if e.state == nil {
		return s.withoutAttempt(e)
	}
	switch {
	case *e.answered: // also if it was sent again, and refused then
		return Delivered
	case *e.state == policy.Pending, s.missed(e):
		return Pending
	case *e.state == policy.Cancelled:
		return Cancelled
	}
	return Failed
}

// withoutAttempt says what became of an event without a recorded attempt.
func (s *standing) withoutAttempt(e *event) State {
	switch {
	case e.underWay:
		return Waiting
	case s.off:
		return NotSentOff
	case e.position > s.cursor, s.missed(e):
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
