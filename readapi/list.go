package readapi

import (
	"bytes"
	"time"
)

// listQuery is what a list's statement is asked.
type listQuery struct {
	key  statementKey
	args []any
	from listPosition // where the list begins
}

// newListQuery makes the query of a request for a list; limit is how many rows are read at
// most, nil: all.
func newListQuery(q *request, limit any) listQuery {
	e := q.endpoint
	var at listPosition
	if q.params.has(e.cursor) {
		at = parseListPosition(q.position())
	}
	var since *time.Time
	// Rows after a position that the list has reached meet the condition, because
	// publish times rise with the positions. At the start it is looked up each time,
	// because a time in the future has no position yet; until it has one, the cursor
	// stays there.
	if q.params.has(e.since) && at.position == 0 {
		t := q.params.time(e.since)
		since = &t
	}
	args := append(make([]any, 0, listArguments+len(e.filters)), q.key.WorkspaceID, at.position, at.id, since, limit, at.mark.Position, at.mark.Chain[:])
	key := statementKey{visible: q.visible, removed: q.params.has(e.include)}
	for i, f := range e.filters {
		if q.params.has(f.param) {
			key.given |= 1 << i
			args = append(args, q.params.get(f.param))
		}
	}
	return listQuery{key, args, at}
}

// divergedList is the answer to a cursor of a list of a log that went back.
func divergedList() error { return diverged("read the list again without a cursor") }

// answerRows answers with a page of a read table.
func answerRows(q *request) error {
	size := q.params.limit(q.endpoint.limit)
	query := newListQuery(q, size+1)
	at := query.from
	rows, err := q.query(q.endpoint.statement(query.key), query.args...)
	if err != nil {
		return err
	}
	defer rows.close()
	first, err := rows.pageVersion()
	if err != nil {
		return q.readError(err)
	}
	if err := reached(q, first.version); err != nil {
		return err
	}
	if !first.held {
		return divergedList()
	}
	body := q.api.answers.Buffer()
	defer q.api.answers.Release(body)
	more, err := q.appendPage(body, rows, size, &at)
	if err != nil {
		return q.readError(err)
	}
	at.seen(first.visible)
	if !more && first.since {
		at.pass(first.visible.Position)
	}
	appendEnd(body, more, q.cursor(at.append(nil)))
	rows.close() // before the answer is written: a slow caller must not hold a connection
	return q.answerWith(body.Bytes(), first.version)
}

// appendPage writes the opening of the envelope and up to size rows, moves at to the
// last of them, and returns whether there are more.
func (q *request) appendPage(body *bytes.Buffer, rows *rowReader, size int, at *listPosition) (more bool, err error) {
	body.WriteString(`{"data":[`)
	for {
		position, values, ok, err := rows.next()
		if err != nil {
			return false, err
		}
		if !ok {
			return false, nil
		}
		if q.rows == size {
			return true, nil
		}
		if q.rows > 0 {
			body.WriteByte(',')
		}
		appendRow(body, values[columnFragments:])
		at.position, at.id = position, string(values[columnID])
		q.rows++
	}
}
