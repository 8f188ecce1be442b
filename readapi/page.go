package readapi

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
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

// divergedList is the answer to a list's cursor after the log went back.
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

// associatedData returns what a cursor is tied to: the workspace, the endpoint with the id in its
// path, and every other parameter that was given. A parameter that was not given adds nothing, so
// cursors stay valid when endpoints get more parameters. The key is not part of it: the cursor
// itself says what the key could see.
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

// openCursor opens the request's cursor. saw is what the key that got the cursor could see. ok is
// false if the cursor does not belong to the request.
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

// position returns the position in the request's cursor, which checkParams has found valid; nil:
// there is no cursor.
func (q *request) position() []byte {
	_, position, _ := q.openCursor()
	return position
}

// cursor seals the position where the request's list continues, together with what its key could
// see.
func (q *request) cursor(position []byte) string {
	sealed := append([]byte{q.endpoint.shows(q.visible).code()}, position...)
	return q.api.cursors.of(q.key.WorkspaceID).seal(q.associatedData(), sealed)
}

// columnsOf returns the columns of a resource's table that a key may see, as SQL. Each holds a
// fragment of the row's JSON, in the order in which appendRow joins them.
func columnsOf(r *route.Resource, visible visibility) string {
	columns := "base"
	if visible.pay && r.Has(domain.Pay) {
		columns += ", pay"
	}
	if visible.margin && r.Has(domain.Margin) {
		columns += ", margin"
	}
	return columns
}

// conditionsOf returns the conditions, apart from filters, that select the rows a key may see. It
// is SQL that begins with AND, or empty.
func conditionsOf(r *route.Resource, visible visibility) string {
	var b strings.Builder
	if r.Shown != "" {
		b.WriteString(" AND " + r.Shown)
	}
	if r.ShownWithoutPay != "" && !visible.pay {
		b.WriteString(" AND " + r.ShownWithoutPay)
	}
	return b.String()
}

// versionRow returns the SQL of the first row of every answer: the workspace's visible position
// and, as text, the microsecond at which it moved. It is part of the statement that reads the rows,
// so both come from one snapshot. columns are the columns of the rows that follow; log is the SQL
// that stands in place of the first of them.
func versionRow(columns, log string) string {
	return `SELECT position, coalesce((extract(epoch FROM moved_at) * 1000000)::bigint, 0)::text AS id, ` + log +
		strings.Repeat(", NULL::text", strings.Count(columns, ",")) + `
	  FROM log_checkpoint c WHERE workspace_id = $1 AND consumer = '` + eventlog.ReadModels + `'`
}

// noLog is versionRow's log argument if nothing about the log is needed.
const noLog = "NULL::text"

// pageLog returns versionRow's log argument for a page, which pageVersion reads: the bytes of the
// visible position's mark, whether the log holds the mark given by position and chain, and whether
// since is absent or not after the visible position.
func pageLog(position, chain, since string) string {
	return `concat_ws(' ',
	         coalesce(` + eventlog.AtPosition(`encode(`+eventlog.ChainStart+`, 'hex')`, "$1", "c.position") + `, repeat('0', 16)),
	         ` + eventlog.HoldsMark("$1", position, chain) + `,
	         ` + since + `::timestamptz IS NULL OR coalesce(` + eventlog.AtPosition("e.created_at", "$1", "c.position") + ` >= ` + since + `, false))`
}

// listArguments is how many arguments a list's statement has before those of the filters:
// workspace, position, id, since, limit, and the position and bytes of the cursor's mark.
const listArguments = 7

// listStatement returns the statement that reads a page in list order, after a position. If bit i
// of given is set, filter i is used.
//
// The inner LIMIT is a literal, so that the plan, which is made once for all values, expects a few
// rows; $5 then takes as many as the request asks for.
func listStatement(r *route.Resource, filters []filter, given uint, visible visibility) string {
	return rowsStatement(r, filters, statementKey{given: given, visible: visible}, pageLimit())
}

// wholeStatement returns the statement that reads a list from a position to its end. It is
// listStatement or removedStatement without the inner LIMIT; $5 is NULL.
func wholeStatement(r *route.Resource, filters []filter, key statementKey) string {
	if key.removed {
		return rowsAndRemovedStatement(r, filters, key, "")
	}
	return rowsStatement(r, filters, key, "")
}

// pageLimit is the inner LIMIT of a page.
func pageLimit() string { return " LIMIT " + strconv.Itoa(route.MaxLimit+1) }

func rowsStatement(r *route.Resource, filters []filter, key statementKey, limit string) string {
	columns := columnsOf(r, key.visible)
	return "(" + versionRow(columns, pageLog("$6", "$7", "$4")) + `)
	UNION ALL
	(SELECT position, id, ` + columns + ` FROM (` + pageOf(r.Table, columns, conditionsOf(r, key.visible)+filterConditions(filters, key.given), limit) + `) page LIMIT $5)`
}

// logOlderRules replaces pageLog in the version row of removedStatement if not all rows that have
// left are kept, because rules below removedRules made some rows.
const (
	logOlderRules = "older rules"
	removedRules  = 2
)

// removedTable returns the table of the rows that have left the sight of a key; empty: rows never
// leave.
func removedTable(r *route.Resource, visible visibility) string {
	if visible.pay {
		return r.Removed
	}
	return r.RemovedWithoutPay
}

// removedStatement is listStatement with the rows that have left. The column base holds such a row
// completely, so the other columns are empty.
func removedStatement(r *route.Resource, filters []filter, given uint, visible visibility) string {
	return rowsAndRemovedStatement(r, filters, statementKey{given: given, visible: visible}, pageLimit())
}

func rowsAndRemovedStatement(r *route.Resource, filters []filter, key statementKey, limit string) string {
	removed := removedTable(r, key.visible)
	if removed == "" {
		return rowsStatement(r, filters, key, limit)
	}
	columns := columnsOf(r, key.visible)
	filtered := filterConditions(filters, key.given)
	log := fmt.Sprintf("CASE WHEN c.position > 0 AND c.rules < %d THEN '%s' ELSE %s END", removedRules, logOlderRules, pageLog("$6", "$7", "$4"))
	return "(" + versionRow(columns, log) + `)
	UNION ALL
	(SELECT position, id, ` + columns + ` FROM (
	  (` + pageOf(r.Table, columns, conditionsOf(r, key.visible)+filtered, limit) + `)
	  UNION ALL
	  (` + pageOf(removed, "base"+strings.Repeat(", ''", strings.Count(columns, ",")), filtered, limit) + `)
	  ORDER BY position, id) page LIMIT $5)`
}

// pageOf returns the SQL that selects the first rows of a page from one table. The page begins at
// the cursor's position or at the first entry published at or after $4, whichever is later.
func pageOf(table, columns, conditions, limit string) string {
	return `SELECT position, id, ` + columns + ` FROM ` + table + `
	  WHERE workspace_id = $1 AND (position, id) > (greatest($2, coalesce(log_position_since($1, $4), 0)), $3)` + conditions +
		` ORDER BY position, id` + limit
}

// filterConditions returns the conditions of the given filters. It is SQL that begins with AND, or
// empty.
func filterConditions(filters []filter, given uint) string {
	var b strings.Builder
	n := listArguments
	for i, f := range filters {
		if given&(1<<i) != 0 {
			n++
			b.WriteString(" AND " + f.column + " = $" + strconv.Itoa(n))
		}
	}
	return b.String()
}

// rowStatement returns the statement that reads one row by its id. Its version row comes whether or
// not that row exists.
func rowStatement(r *route.Resource, visible visibility) string {
	columns := columnsOf(r, visible)
	return "(" + versionRow(columns, noLog) + `)
	UNION ALL
	(SELECT position, id, ` + columns + ` FROM ` + r.Table + ` WHERE workspace_id = $1 AND id = $2` + conditionsOf(r, visible) + `)`
}

// Positions that mark the special rows of creditStatement.
const (
	positionCredit = -1
	positionNewer  = -2
)

// creditStatement returns the statement that reads a client's credit with a page of its history,
// newest first. Its rows: the version row; the credit, if there is one; a row if the history has
// more rows after position $5; the history between the positions $3 and $4. $7 and $8 are the
// cursor's mark.
func creditStatement() string {
	return "(" + versionRow("base", pageLog("$7", "$8", "NULL")) + `)
	UNION ALL
	(SELECT -1, 'credit', base FROM client_credit WHERE workspace_id = $1 AND id = $2)
	UNION ALL
	(SELECT -2, 'newer', '' WHERE EXISTS (SELECT FROM credit_move WHERE workspace_id = $1 AND client_id = $2 AND position > $5))
	UNION ALL
	(SELECT position, id, base FROM (SELECT position, id, base FROM credit_move
	  WHERE workspace_id = $1 AND client_id = $2 AND position > $3 AND position < $4
	  ORDER BY position DESC LIMIT ` + strconv.Itoa(route.MaxLimit+1) + `) page LIMIT $6)`
}

// queryPair is one parameter of a query.
type queryPair struct {
	name, value string
	decoded     bool // false: it cannot be decoded, and name is as it came
}

// queryPairs splits a query. Unlike url.ParseQuery it leaves nothing out: it reports pairs that
// cannot be decoded, and a semicolon is an ordinary character.
func queryPairs(query string) iter.Seq[queryPair] {
	return func(yield func(queryPair) bool) {
		for part := range strings.SplitSeq(query, "&") {
			if part == "" {
				continue
			}
			rawName, rawValue, _ := strings.Cut(part, "=")
			name, err1 := url.QueryUnescape(rawName)
			value, err2 := url.QueryUnescape(rawValue)
			pair := queryPair{name: name, value: value, decoded: err1 == nil && err2 == nil}
			if !pair.decoded {
				pair.name = rawName
			}
			if !yield(pair) {
				return
			}
		}
	}
}

// visibility says which fields of a row a key sees because of its permissions.
type visibility struct{ pay, margin bool }

// visibilityOf follows docs/contract/service.md, "Field visibility by permission":
// margin needs pay:read as well.
func visibilityOf(p access.Permissions) visibility {
	pay := p.Has(access.PayRead)
	return visibility{pay: pay, margin: pay && p.Has(access.MarginRead)}
}

// visibilities returns all possible visibilities.
func visibilities() []visibility {
	return []visibility{{}, {pay: true}, {pay: true, margin: true}}
}

// shows returns the part of a visibility that makes a difference at this endpoint. For example,
// pay:read shows nothing more of clients.
func (e *endpoint) shows(v visibility) visibility {
	r := e.Resource
	switch {
	case e.Kind == route.Events:
		return visibility{pay: v.pay}
	case r == nil:
		return visibility{}
	}
	return visibility{pay: v.pay && (r.Has(domain.Pay) || r.ShownWithoutPay != ""), margin: v.margin && r.Has(domain.Margin)}
}

// exceeds reports whether v shows anything that other does not.
func (v visibility) exceeds(other visibility) bool {
	return v.pay && !other.pay || v.margin && !other.margin
}

// Bits of a visibility's code.
const (
	codePay = 1 << iota
	codeMargin
)

// code encodes the visibility for a cursor.
func (v visibility) code() (code byte) {
	if v.pay {
		code |= codePay
	}
	if v.margin {
		code |= codeMargin
	}
	return code
}

// parseVisibility reads what code wrote. The cursor's proof guarantees that it is valid.
func parseVisibility(code byte) visibility {
	return visibility{pay: code&codePay != 0, margin: code&codeMargin != 0}
}
