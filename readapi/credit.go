package readapi

import (
	"encoding/binary"
	"fmt"
	"math"
)

// historyPlace is where a reader of a credit's history stands. It reads newest
// first, in rounds: from the newest row down to floor, which is where the round
// before began. The first round has floor 0 and so reads everything.
type historyPlace struct {
	floor int64 // rows up to here were read in earlier rounds
	top   int64 // the newest row of this round; 0: the round has not begun
	below int64 // rows from here on up were read in this round; 0: none
}

func (p historyPlace) append(b []byte) []byte {
	for _, n := range [...]int64{p.floor, p.top, p.below} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

// parseHistoryPlace reads what append wrote; the seal has proved that it did.
func parseHistoryPlace(b []byte) historyPlace {
	var p historyPlace
	for _, n := range [...]*int64{&p.floor, &p.top, &p.below} {
		v, size := binary.Uvarint(b)
		*n, b = int64(v), b[max(size, 0):]
	}
	return p
}

// creditMark are the positions that tell the rows of creditStatement apart.
const (
	markCredit = -1
	markNewer  = -2
)

func (c *call) answerCredit() error {
	if !isID(c.id) {
		return unknownID(words("Client"))
	}
	at := historyPlace{}
	if c.given.has(c.route.cursor) {
		at = parseHistoryPlace(c.place())
	}
	below, newerThan := at.below, at.top
	if below == 0 {
		below, newerThan = math.MaxInt64, math.MaxInt64 // the round begins with the newest
	}
	size := c.given.limit(c.route.limit)
	rows, err := c.query(creditStatement(), c.key.WorkspaceID, c.id, at.floor, below, newerThan, size+1)
	if err != nil {
		return err
	}
	defer rows.rows.Close()
	version, err := rows.standing()
	if err != nil {
		return fmt.Errorf("read %s: %w", c.route.pattern, err)
	}
	body := getScratch()
	defer putScratch(body)
	exists, older, newer := false, false, false
	for !older {
		position, values, ok, err := rows.next()
		if err != nil {
			return fmt.Errorf("read %s: %w", c.route.pattern, err)
		}
		if !ok {
			break
		}
		switch {
		case position == markCredit:
			exists = true
			body.Write(values[columnFragments])
			body.WriteString(`,"history":[`)
		case position == markNewer:
			newer = true
		case c.rows == size:
			older = true
		default:
			if c.rows > 0 {
				body.WriteByte(',')
			}
			appendRow(body, values[columnFragments:])
			c.rows++
			at.top, at.below = max(at.top, position), position
		}
	}
	if !exists {
		return unknownID(words("Client"))
	}
	if !older && at.top > 0 { // the round is over; the next one reads what is newer
		at = historyPlace{floor: at.top}
	}
	appendEnd(body, older || newer, c.api.cursors.seal(c.circumstances(), at.append(nil)))
	rows.rows.Close() // before the answer is written: a slow caller must not hold a connection
	c.write(body.Bytes(), version)
	return nil
}
