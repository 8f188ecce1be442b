package readapi

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// listQuery is the statement and arguments of a request for a list.
type listQuery struct {
	key  statementKey
	args []any
	from listPosition // where the list begins
}

// newListQuery makes the query of a request for a list. limit is the most rows to read; nil: all.
func newListQuery(q *request, limit any) listQuery {
	e := q.endpoint
	var at listPosition
	if q.params.has(e.cursor) {
		at = parseListPosition(q.position())
	}
	var since *time.Time
	// updated_since matters only at the start of the list: publish times rise with positions, so
	// every later row meets it. At the start its position is looked up each time, because a time in
	// the future has no position yet. Until it has one, the cursor stays at the start.
	if q.params.has(e.since) && at.position == 0 {
		t := q.params.time(e.since)
		since = &t
	}
	key, filtered := e.keyOf(q)
	args := append(make([]any, 0, listArguments+len(filtered)), q.key.WorkspaceID, at.position, at.id, since, limit, at.mark.Position, at.mark.Chain[:])
	return listQuery{key, append(args, filtered...), at}
}

// divergedList is the answer to a list's cursor after the log went back.
func divergedList() error {
	return diverged("empty your copy of this list, and read it again without a cursor")
}

// answerRows answers with a page of a read table.
func answerRows(q *request) error {
	if t, ok := q.Value(turnKey{}).(*turn); ok { // of a Reader
		return answerTurn(q, t)
	}
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

// Columns of every statement that reads rows; the fragments of the row follow.
const (
	columnPosition = iota
	columnID
	columnFragments
)

// errOlderRules says that the rows that have left a list are incomplete, because an older version
// of the program made the workspace's rows. The rebuild adds such rows at places that a follower
// may have passed already, so the follower would miss them.
var errOlderRules = errors.New("the workspace's rows were made by older rules, which do not keep rows that have left the lists")

var errRowForm = errors.New("a row has another form than its statement says")

// rowReader reads the result of a statement without copying the rows.
type rowReader struct {
	rows    pgx.Rows
	binary  bool   // positions are in binary form
	release func() // gives the workspace's connection back; nil: none was taken
}

// query runs a statement for a page of the request's endpoint, on one of the connections that the
// workspace may use.
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

// queryVersion is query for a statement whose first row has only a version. It reads that row.
func (q *request) queryVersion(statement string, args ...any) (*rowReader, version, error) {
	rows, err := q.query(statement, args...)
	if err != nil {
		return nil, version{}, err
	}
	v, err := rows.version()
	if err != nil {
		err = q.readError(err)
	} else {
		err = reached(q, v)
	}
	if err != nil {
		rows.close()
		return nil, version{}, err
	}
	return rows, v, nil
}

// close gives the connection back. It may be called more than once.
func (r *rowReader) close() {
	r.rows.Close()
	if r.release != nil {
		r.release()
	}
}

// readError adds to err which endpoint could not be read.
func (q *request) readError(err error) error {
	return fmt.Errorf("read %s: %w", q.endpoint.Path, err)
}

// next reads the next row. Its values are valid until the next call; ok is false after the last
// row.
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

// version reads the first row, which has the version of the rows that follow.
func (r *rowReader) version() (version, error) {
	v, _, err := r.versionRow()
	return v, err
}

// versionRow reads the first row: the version of the rows that follow, and the value of the
// function versionRow's log argument.
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

// pageVersion is the content of a page's first row.
type pageVersion struct {
	version version
	visible eventlog.Mark
	held    bool // the log holds the mark of the request's cursor
	since   bool // updated_since is absent or not after the visible position
}

// pageVersion reads the first row of a statement that uses pageLog.
func (r *rowReader) pageVersion() (v pageVersion, err error) {
	read, log, err := r.versionRow()
	if err != nil {
		return v, err
	}
	if string(log) == logOlderRules {
		return v, errOlderRules
	}
	const chain = 2 * len(v.visible.Chain) // in hexadecimal digits; then twice a blank and t or f
	if len(log) != chain+len(" t t") {
		return v, errRowForm
	}
	v = pageVersion{version: read, visible: eventlog.Mark{Position: read.position}, held: log[chain+1] == 't', since: log[chain+3] == 't'}
	if _, err := hex.Decode(v.visible.Chain[:], log[:chain]); err != nil {
		return v, fmt.Errorf("%w: %w", errRowForm, err)
	}
	return v, nil
}

// appendRow joins the fragments of a row and closes it.
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
