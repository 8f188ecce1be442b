package readapi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// columns of every statement of rows, before the fragments.
const (
	columnPosition = iota
	columnID
	columnFragments
)

var errRowForm = errors.New("a row has another form than its statement says")

// rowReader reads the rows of a statement without copying them.
type rowReader struct {
	rows   pgx.Rows
	binary bool // how positions come
}

func (c *call) query(statement string, args ...any) (*rowReader, error) {
	rows, err := c.api.cfg.Pool.Query(c.ctx, statement, args...)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c.route.pattern, err)
	}
	return &rowReader{rows: rows}, nil
}

// next reads the next row; its values are good until the row after it.
func (r *rowReader) next() (position int64, values [][]byte, ok bool, err error) {
	if !r.rows.Next() {
		return 0, nil, false, r.rows.Err()
	}
	values = r.rows.RawValues()
	if fields := r.rows.FieldDescriptions(); len(fields) > 0 {
		r.binary = fields[columnPosition].Format == pgx.BinaryFormatCode
	}
	position, err = r.int(values[columnPosition])
	return position, values, true, err
}

func (r *rowReader) int(value []byte) (int64, error) {
	if r.binary {
		if len(value) != 8 {
			return 0, errRowForm
		}
		return int64(binary.BigEndian.Uint64(value)), nil
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errRowForm, err)
	}
	return n, nil
}

// standing reads the first row: the version of what follows.
func (r *rowReader) standing() (string, error) {
	position, values, ok, err := r.next()
	if err != nil {
		return "", err
	}
	if !ok {
		return "", errNoStanding
	}
	return rowsVersion(position, string(values[columnID])), nil
}

// appendRow puts the fragments of a row together.
func appendRow(b *bytes.Buffer, fragments [][]byte) {
	for _, f := range fragments {
		b.Write(f)
	}
	b.WriteByte('}')
}

// appendEnd ends the envelope of a list (docs/contract/service.md, "Endpoints").
func appendEnd(b *bytes.Buffer, more bool, cursor string) {
	b.WriteString(`],"has_more":`)
	b.Write(strconv.AppendBool(b.AvailableBuffer(), more))
	b.WriteString(`,"next_cursor":"`)
	b.WriteString(cursor) // base64
	b.WriteString(`"}`)
}

// place opens the request's cursor; the start where there is none. checkParams
// has opened it before.
func (c *call) place() []byte {
	sealed, _ := c.api.cursors.open(c.circumstances(), c.given.get(c.route.cursor))
	return sealed
}

func (c *call) answerList() error {
	r := c.route
	at := place{}
	if c.given.has(r.cursor) {
		at = parsePlace(c.place())
	}
	var since *time.Time
	// Rows behind a place that was reached meet the condition: publish times
	// rise with the positions. At the start it is looked up each time, because
	// a time to come has no position yet.
	if c.given.has(r.since) && at.position == 0 {
		t := c.given.time(r.since)
		since = &t
	}
	size := c.given.limit(r.limit)
	args := append(make([]any, 0, listFixed+len(r.filters)), c.key.WorkspaceID, at.position, at.id, since, size+1)
	chosen := key{sight: c.sight}
	for i, param := range r.filterAt {
		if c.given.has(param) {
			chosen.given |= 1 << i
			args = append(args, c.given.get(param))
		}
	}
	rows, err := c.query(r.statements[chosen], args...)
	if err != nil {
		return err
	}
	defer rows.rows.Close()
	version, err := rows.standing()
	if err != nil {
		return fmt.Errorf("read %s: %w", r.pattern, err)
	}
	body := getScratch()
	defer putScratch(body)
	more, err := c.appendPage(body, rows, size, &at)
	if err != nil {
		return fmt.Errorf("read %s: %w", r.pattern, err)
	}
	appendEnd(body, more, c.api.cursors.seal(c.circumstances(), at.append(nil)))
	rows.rows.Close() // before the answer is written: a slow caller must not hold a connection
	c.write(body.Bytes(), version)
	return nil
}

// appendPage writes the opening of the envelope and up to size rows, moves the
// place to the last of them, and tells whether another waits.
func (c *call) appendPage(body *bytes.Buffer, rows *rowReader, size int, at *place) (more bool, err error) {
	body.WriteString(`{"data":[`)
	for {
		position, values, ok, err := rows.next()
		if err != nil {
			return false, err
		}
		if !ok {
			return false, nil
		}
		if c.rows == size {
			return true, nil
		}
		if c.rows > 0 {
			body.WriteByte(',')
		}
		appendRow(body, values[columnFragments:])
		at.position, at.id = position, string(values[columnID])
		c.rows++
	}
}
