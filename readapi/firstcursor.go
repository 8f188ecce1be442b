package readapi

import (
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// Version 0.1.0 gave cursors without a mark of the log. A cursor does not expire, so they
// go on: nothing is compared for them, and the next one has a mark.

// openFirstCursor opens a cursor of version 0.1.0 and returns its position in today's
// form.
func (q *request) openFirstCursor(cursor string) (position []byte, ok bool) {
	position, ok = q.api.firstCursors.open(q.firstAssociatedData(), cursor)
	switch {
	case !ok:
		return nil, false
	case q.endpoint.Kind == route.Events: // a position, which is that of the mark now
		return append(position, make([]byte, len(eventlog.Mark{}.Chain))...), true
	}
	return append(appendMark(nil, eventlog.Mark{}), position...), true
}

// firstAssociatedData is what such a cursor is tied to: parameters that are not given, too,
// of those that there were.
func (q *request) firstAssociatedData() []byte {
	b := q.associatedTarget()
	for i := range q.endpoint.Params {
		given := q.params.has(i)
		if i == q.endpoint.cursor || !given && q.endpoint.Params[i].Name == "include" { // which is younger
			continue
		}
		b = appendSized(b, q.endpoint.Params[i].Name)
		if !given {
			b = append(b, 0)
			continue
		}
		b = append(b, 1)
		b = appendSized(b, q.params.get(i))
	}
	return b
}
