package readapi

import (
	"math"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// answerCredit answers with a client's credit and a page of its history.
func answerCredit(q *request) error {
	if !domain.IsID(q.pathID) { // cannot exist, and may be no text for the database
		return answer.UnknownID("client")
	}
	var at historyPosition
	if q.params.has(q.endpoint.cursor) {
		at = parseHistoryPosition(q.position())
	}
	below, newerThan := at.below, at.top
	if below == 0 {
		below, newerThan = math.MaxInt64, math.MaxInt64 // the pass begins with the newest
	}
	size := q.params.limit(q.endpoint.limit)
	rows, err := q.query(q.endpoint.statement(0, q.visible), q.key.WorkspaceID, q.pathID, at.floor, below, newerThan, size+1)
	if err != nil {
		return err
	}
	defer rows.rows.Close()
	version, err := rows.version()
	if err != nil {
		return q.readError(err)
	}
	body := q.api.answers.Buffer()
	defer q.api.answers.Release(body)
	exists, older, newer := false, false, false
	for !older {
		position, values, ok, err := rows.next()
		if err != nil {
			return q.readError(err)
		}
		if !ok {
			break
		}
		switch {
		case position == positionCredit:
			exists = true
			body.Write(values[columnFragments])
			body.WriteString(`,"history":[`)
		case position == positionNewer:
			newer = true
		case q.rows == size:
			older = true
		default:
			if q.rows > 0 {
				body.WriteByte(',')
			}
			appendRow(body, values[columnFragments:])
			q.rows++
			at.top, at.below = max(at.top, position), position
		}
	}
	if !exists {
		return answer.UnknownID("client")
	}
	if !older && at.top > 0 { // the pass is over; the next one reads what is newer
		at = historyPosition{floor: at.top}
	}
	appendEnd(body, older || newer, q.cursor(at.append(nil)))
	rows.rows.Close() // before the answer is written: a slow caller must not hold a connection
	q.answerWith(body.Bytes(), version)
	return nil
}
