package scenario

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// sim is what a Generator and a Living share: the stories, and the state that
// they move. It belongs to one goroutine.
type sim struct {
	workspace string
	rng       *rand.Rand
	cast      *cast
	queue     queue
	active    []*engagement // where work is done now

	// clock is the story's time, the time of the queue. now is the moment that
	// dates, periods and created_at follow. In a history they are the same, and
	// lines carry created_at; a Living dates whatever step comes next by the
	// caller's now, and its clock only orders the steps.
	clock, now int64
	history    bool

	// idBase makes the ids of one run of a Living differ from those of the
	// history and of every other run.
	idBase  string
	eventID string // the start of every event id
	ids     counters

	obj   object
	out   []Line // written and not yet taken
	taken int    // how many of out have been

	lines   int64 // written so far
	work    int64 // of these, about time entries
	reviews int64 // time entries that wait for their approval
	odd     oddities
}

// counters number what the agency makes.
type counters struct {
	event, entry, charge, invoice, note, payment, credit, pack, odd int64
}

func newSim(workspace string, c *cast, rng *rand.Rand) *sim {
	return &sim{workspace: workspace, cast: c, rng: rng, eventID: "evt_h"}
}

// take gives the next written line.
func (s *sim) take() (Line, bool) {
	if s.taken == len(s.out) {
		return Line{}, false
	}
	l := s.out[s.taken]
	s.out[s.taken] = Line{}
	s.taken++
	if s.taken == len(s.out) {
		s.out, s.taken = s.out[:0], 0
	}
	return l, true
}

// step runs the earliest planned step.
func (s *sim) step() {
	e := s.queue.pop()
	s.clock = e.at
	if s.history {
		s.now = e.at
	}
	e.run()
}

// emit writes the object under construction as a line, now and then followed by
// an odd one.
func (s *sim) emit(typ string) {
	s.write(typ, s.obj.finish())
	if s.chance(oddPerMille) {
		s.oddLine()
	}
}

func (s *sim) write(typ string, data []byte) {
	s.lines++
	s.ids.event++
	l := Line{
		WorkspaceID: s.workspace,
		ID:          string(appendDigits(append(make([]byte, 0, 40), s.eventID...), s.ids.event, 8)),
		Type:        typ,
		Data:        append(make([]byte, 0, len(data)), data...),
	}
	if s.history {
		l.CreatedAt = time.UnixMilli(s.now).UTC()
	}
	s.out = append(s.out, l)
}

// id gives the next id of a kind of object.
func (s *sim) id(kind string, n *int64) string {
	*n++
	b := make([]byte, 0, 40)
	b = append(b, kind...)
	b = append(b, s.idBase...)
	return string(appendDigits(b, *n, 6))
}

// today is the day of now.
func (s *sim) today() day { return dayOf(s.now) }

// chance is true in so many of 1000 cases.
func (s *sim) chance(perMille uint32) bool { return s.rng.Uint32N(1000) < perMille }

// between draws from lo to hi, hi not included; lo when there is no room.
func (s *sim) between(lo, hi int64) int64 {
	if hi <= lo {
		return lo
	}
	return lo + s.rng.Int64N(hi-lo)
}

// pick draws one of the words.
func (s *sim) pick(words []string) string { return words[s.rng.IntN(len(words))] }

// after plans a step that machines do: at any hour.
func (s *sim) after(lo, hi int64, run func()) {
	s.queue.push(s.clock+s.between(lo, hi), run)
}

// afterInOffice plans a step that people do: on a working day, in the day.
func (s *sim) afterInOffice(lo, hi int64, run func()) {
	s.queue.push(s.office(s.clock+s.between(lo, hi)), run)
}

const (
	opening = 8 * hour
	closing = 19 * hour
)

// office moves a moment outside office hours to a moment in the next ones.
func (s *sim) office(at int64) int64 {
	d := dayOf(at)
	t := at - d.start()
	w := d.weekday()
	switch {
	case w >= 5:
		d += day(7 - w)
	case t < opening:
	case t < closing:
		return at
	case w == 4:
		d += 3
	default:
		d++
	}
	return d.start() + s.between(opening, closing)
}

// base36 is the short form of numbers inside ids.
func base36(n int64) string { return strconv.FormatInt(max(n, 0), 36) }
