package scenario

import (
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// output turns entries into lines, and numbers what they are about.
type output struct {
	workspace string
	obj       object // the data of the next line

	out     []Line
	taken   int   // how many of out have been taken
	written int64 // lines written so far

	// idBase makes the ids of one run of a Living differ from the ids of the
	// history and of every other run.
	idBase  string
	eventID string // the start of every event id
	ids     counters
}

// counters number what the agency makes.
type counters struct {
	event, entry, charge, invoice, note, payment, credit, pack, anomaly int64
}

// take returns the next line, if one is written.
func (o *output) take() (Line, bool) {
	if o.taken == len(o.out) {
		return Line{}, false
	}
	l := o.out[o.taken]
	o.out[o.taken] = Line{}
	o.taken++
	if o.taken == len(o.out) {
		o.out, o.taken = o.out[:0], 0
	}
	return l, true
}

// append writes a line. A zero createdAt is left to the log.
func (o *output) append(typ string, data []byte, createdAt time.Time) {
	o.written++
	o.ids.event++
	o.out = append(o.out, Line{
		WorkspaceID: o.workspace,
		ID:          string(appendDigits(append(make([]byte, 0, 40), o.eventID...), o.ids.event, 8)),
		Type:        typ,
		CreatedAt:   createdAt,
		Data:        append(make([]byte, 0, len(data)), data...),
	})
}

// id returns the next id of a kind of object, which n counts.
func (o *output) id(kind string, n *int64) string {
	*n++
	b := make([]byte, 0, 40)
	b = append(b, kind...)
	b = append(b, o.idBase...)
	return string(appendDigits(b, *n, 6))
}

// Line is one entry, as it is appended to the log.
type Line struct {
	WorkspaceID string
	// ID is never empty and unique in its workspace, so appending the same stream
	// twice is harmless.
	ID   string
	Type string
	// CreatedAt is in UTC, in whole milliseconds, and never before the time of the
	// line before it. It is zero in lines of a Living, whose time the log assigns.
	CreatedAt time.Time
	// Data is the entry's JSON object in canonical form. The caller owns it.
	Data []byte
}

// AppendNDJSON appends the line as the append command takes it, with its line feed. A
// zero CreatedAt is left out.
func (l Line) AppendNDJSON(b []byte) []byte {
	b = jsonform.AppendString(append(b, `{"workspace_id":`...), l.WorkspaceID)
	b = jsonform.AppendString(append(b, `,"id":`...), l.ID)
	b = jsonform.AppendString(append(b, `,"type":`...), l.Type)
	if !l.CreatedAt.IsZero() {
		b = append(b, `,"created_at":"`...)
		b = appendInstant(b, l.CreatedAt.UnixMilli())
		b = append(b, '"')
	}
	b = append(b, `,"data":`...)
	b = append(b, l.Data...)
	return append(b, '}', '\n')
}
