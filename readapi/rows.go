package readapi

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// Columns of every statement that reads rows; the fragments of the row follow.
const (
	columnPosition = iota
	columnID
	columnFragments
)

// errOlderRules says that the rows that have left a list are not complete, because an
// older version of the program made the workspace's rows. They are being rebuilt, and
// that adds rows at places that a follower may have passed: it would miss them.
var errOlderRules = errors.New("the workspace's rows were made by older rules, which do not keep rows that have left the lists")

var errRowForm = errors.New("a row has another form than its statement says")

// rowReader reads the result of a statement without copying the rows.
type rowReader struct {
	rows    pgx.Rows
	binary  bool   // whether positions come in binary form
	release func() // gives the share of the connections back; nil: it has none
}

// query runs a statement for a page of the request's endpoint, on a connection of the
// workspace's share.
func (q *request) query(statement string, args ...any) (*rowReader, error) {
	release, err := q.from.shares.take(q, q.key.WorkspaceID)
	if err != nil {
		return nil, q.readError(err)
	}
	rows, err := q.from.pool.Query(q, statement, args...)
	if err != nil {
		release()
		return nil, q.readError(err)
	}
	return &rowReader{rows: rows, release: release}, nil
}

// close gives the connection back. It may be called again.
func (r *rowReader) close() {
	r.rows.Close()
	if r.release != nil {
		r.release()
	}
}

// readError says which endpoint could not be read.
func (q *request) readError(err error) error {
	return fmt.Errorf("read %s: %w", q.endpoint.Path, err)
}

// next reads the next row; its values are valid until the row after it.
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

// version reads the first row: the version of the rows that follow.
func (r *rowReader) version() (version, error) {
	v, _, err := r.versionRow()
	return v, err
}

// versionRow reads the first row: the version of the rows that follow, and what
// versionRow in the statement selects of the log.
func (r *rowReader) versionRow() (v version, log []byte, err error) {
	visible, values, ok, err := r.next()
	if err != nil {
		return version{}, nil, err
	}
	if !ok {
		return version{}, nil, errNoVersionRow
	}
	return formatRowsVersion(visible, string(values[columnID])), values[columnFragments], nil
}

// pageVersion is what the first row of a page says.
type pageVersion struct {
	version version
	visible eventlog.Mark
	held    bool // the log holds the mark of the request's cursor
	since   bool // the time from which rows are asked for is not after the visible position
}

// pageVersion reads the first row of a statement with pageLog.
func (r *rowReader) pageVersion() (v pageVersion, err error) {
	read, log, err := r.versionRow()
	if err != nil {
		return v, err
	}
	if string(log) == logOlderRules {
		return v, errOlderRules
	}
	const chain = 2 * len(v.visible.Chain) // in hexadecimal digits; a blank and t or f follow twice
	if len(log) != chain+len(" t t") {
		return v, errRowForm
	}
	v = pageVersion{version: read, visible: eventlog.Mark{Position: read.position}, held: log[chain+1] == 't', since: log[chain+3] == 't'}
	if _, err := hex.Decode(v.visible.Chain[:], log[:chain]); err != nil {
		return v, fmt.Errorf("%w: %w", errRowForm, err)
	}
	return v, nil
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

// associatedData is what a cursor is tied to: the workspace, the endpoint with the id
// in its path, and every other parameter that was given. One that was not adds nothing, so
// that cursors stay valid when endpoints get more parameters. The key is not part of it:
// what it could see is in the cursor itself.
func (q *request) associatedData() []byte {
	b := make([]byte, 0, 128)
	b = appendSized(b, q.key.WorkspaceID)
	b = appendSized(b, q.endpoint.Path)
	b = appendSized(b, q.pathID)
	for i := range q.endpoint.Params {
		if i != q.endpoint.cursor && q.params.has(i) {
			b = appendSized(b, q.endpoint.Params[i].Name)
			b = appendSized(b, q.params.get(i))
		}
	}
	return b
}

// openCursor opens the request's cursor; false: it does not belong to the request. Saw is what
// the key could see to which it was given.
func (q *request) openCursor() (saw visibility, position []byte, ok bool) {
	cursor := q.params.get(q.endpoint.cursor)
	associated := q.associatedData()
	opened, ok := q.api.cursors.of(q.key.WorkspaceID).open(associated, cursor)
	if !ok && q.key.Move != nil {
		for _, key := range q.key.Move.CursorKeys {
			if opened, ok = newWorkspaceSealer(key).open(associated, cursor); ok {
				break
			}
		}
	}
	if !ok || len(opened) == 0 {
		return visibility{}, nil, false
	}
	return parseVisibility(opened[0]), opened[1:], true
}

// position opens the request's cursor, which checkParams found valid. Nil without a
// cursor.
func (q *request) position() []byte {
	_, position, _ := q.openCursor()
	return position
}

// cursor seals the position at which the list of the request continues, with what its key could
// see on the way there.
func (q *request) cursor(position []byte) string {
	sealed := append([]byte{q.endpoint.shows(q.visible).code()}, position...)
	return q.api.cursors.of(q.key.WorkspaceID).seal(q.associatedData(), sealed)
}
