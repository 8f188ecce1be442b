package domain_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// inOneGo folds a whole log in memory and returns its rows as a store has them.
func inOneGo(t failer, log []domain.Entry) *store {
	t.Helper()
	s := domain.NewState()
	for i := range log {
		s.Apply(&log[i])
	}
	st := newStore()
	st.save(t, s)
	return st
}

// TestSegmentsGiveTheSameRows splits random streams into random segments and folds
// each on just the rows that it needs. Bytes, positions and anomalies must be those
// of a fold of the whole log in memory.
func TestSegmentsGiveTheSameRows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lines := drawStream(t)
		log := entriesOf(t, lines)
		st := newStore()
		for rest := log; len(rest) > 0; {
			n := min(len(rest), rapid.SampledFrom([]int{1, 2, 3, 7, 20, 100}).Draw(t, "segment"))
			st.fold(t, rest[:n])
			rest = rest[n:]
		}
		st.equal(t, inOneGo(t, log), "segments against one go")
		if t.Failed() {
			t.Fatalf("stream\n%s", strings.Join(lines, "\n"))
		}
	})
}

// TestResetKeepsRows folds segments one after the other in the same State, as a
// replay that writes in portions does.
func TestResetKeepsRows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lines := drawStream(t)
		log := entriesOf(t, lines)
		portion := rapid.IntRange(1, 30).Draw(t, "portion")
		s, st := domain.NewState(), newStore()
		for i := range log {
			s.Apply(&log[i])
			if (i+1)%portion == 0 {
				st.save(t, s)
				s.Reset()
			}
		}
		st.save(t, s)
		st.equal(t, inOneGo(t, log), "portions against one go")
		if t.Failed() {
			t.Fatalf("portions of %d, stream\n%s", portion, strings.Join(lines, "\n"))
		}
	})
}

// TestPositionIsThatOfTheLastChange compares every row before and after every
// entry. A row whose answer differs has the entry's position and time; a row that
// kept its position is the same to the byte; and the rows reported as changed are
// exactly those with a new position.
func TestPositionIsThatOfTheLastChange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lines := drawStream(t)
		s := domain.NewState()
		before := views(s)
		for _, e := range entriesOf(t, lines) {
			s.Reset()
			s.Apply(&e)
			after := views(s)
			changed := changedRows(s)
			for list, rows := range after {
				for id, now := range rows {
					was, moved := before[list][id], now.position == e.Position
					switch {
					case moved != changed[list+" "+id]:
						t.Errorf("entry %d: %s %s moved: %v, reported as changed: %v", e.Position, list, id, moved, changed[list+" "+id])
					case moved && now.at != domain.FormatTime(e.CreatedAt):
						t.Errorf("entry %d: %s %s moved, its time of change is %s", e.Position, list, id, now.at)
					case moved:
					case was == nil:
						t.Errorf("entry %d: %s %s is new at position %d", e.Position, list, id, now.position)
					case was.position != now.position || was.at != now.at || was.shown != now.shown || pretty(was.doc) != pretty(now.doc):
						t.Errorf("entry %d: %s %s changed without moving\nfrom %s\nto   %s", e.Position, list, id, pretty(was.doc), pretty(now.doc))
					}
					if at, has := now.doc["updated_at"]; has && at != now.at {
						t.Errorf("entry %d: %s %s shows updated_at %v, changed %s", e.Position, list, id, at, now.at)
					}
				}
			}
			before = after
			if t.Failed() {
				t.Fatalf("stream\n%s", strings.Join(lines[:e.Position], "\n"))
			}
		}
	})
}

// changedRows names the rows that a State reports as changed.
func changedRows(s *domain.State) map[string]bool {
	changed := map[string]bool{}
	for _, r := range s.Clients.Changed() {
		changed["clients "+r.ID] = true
	}
	for _, r := range s.Contractors.Changed() {
		changed["contractors "+r.ID] = true
	}
	for _, r := range s.Invoices.Changed() {
		changed["invoices "+r.ID] = true
	}
	for _, r := range s.Charges.Changed() {
		changed["charges "+r.ID] = true
	}
	for _, r := range s.TimeEntries.Changed() {
		changed["time_entries "+r.ID] = true
	}
	for _, r := range s.Payments.Changed() {
		changed["payments "+r.ID] = true
	}
	return changed
}
