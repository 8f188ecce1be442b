package readapi

import (
	"bytes"
	"math"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// ownCredit returns a row of /v1/credits without the client and the time of its last change, which the
// answer about one client does not have. No text in the row can look like the name of a field.
func ownCredit(row []byte) []byte {
	if i := bytes.Index(row, []byte(`"balance":`)); i > 0 {
		row = append([]byte{'{'}, row[i:]...)
	}
	if i := bytes.LastIndex(row, []byte(`,"updated_at":`)); i > 0 {
		row = row[:i]
	}
	return row
}

// answerCredit answers with a client's credit and a page of its history.
func answerCredit(q *request) error {
	if !domain.IsID(q.pathID) { // cannot exist, and may not be valid text for the database
		return answer.UnknownID("client")
	}
	var at historyPosition
	if q.params.has(q.endpoint.cursor) {
		at = parseHistoryPosition(q.position())
	}
	below, newerThan := at.below, at.top
	if below == 0 {
		below, newerThan = math.MaxInt64, math.MaxInt64 // the pass begins with the newest row
	}
	mark, size := at.mark(), q.params.limit(q.endpoint.limit)
	rows, err := q.query(q.endpoint.statement(statementKey{visible: q.visible}), q.key.WorkspaceID, q.pathID, at.floor, below, newerThan, size+1, mark.Position, mark.Chain[:])
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
		return diverged("empty your copy of this credit, and read it again without a cursor")
	}
	at.begin(first.visible)
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
			body.Write(ownCredit(values[columnFragments]))
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
			at.below = position
		}
	}
	if !exists {
		return answer.UnknownID("client")
	}
	if !older { // the pass is over; the next one reads what is newer
		at.end()
	}
	q.wait.newer = newer
	appendEnd(body, older || newer, q.cursor(at.append(nil)))
	rows.close() // before the answer is written: a slow caller must not hold a connection
	return q.answerWith(body.Bytes(), first.version)
}
