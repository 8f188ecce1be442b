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

// columnsOf are the columns of a resource's table that a key may see. Each holds a
// fragment of the row's JSON; they are in the order in which they are put together.
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

// conditionsOf is what the rows that a key may see must meet beside the filters, as
// SQL that begins with AND.
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

// versionRow selects the first row of every answer: the workspace's visible position
// and, as text, the microsecond at which it moved. It is part of the statement that
// reads the rows, so that both are of one snapshot. columns are those of the rows
// that follow; log is what the first of them holds instead, as SQL.
func versionRow(columns, log string) string {
	return `SELECT position, coalesce((extract(epoch FROM moved_at) * 1000000)::bigint, 0)::text AS id, ` + log +
		strings.Repeat(", NULL::text", strings.Count(columns, ",")) + `
	  FROM log_checkpoint c WHERE workspace_id = $1 AND consumer = '` + eventlog.ReadModels + `'`
}

// noLog is for versionRow where nothing of the log is asked for.
const noLog = "NULL::text"

// pageLog is for versionRow what a page has to know of the log, see pageVersion: the
// bytes of the visible position's mark, whether the log holds the mark of the arguments
// position and chain, and whether since, if given, is not after the visible position.
func pageLog(position, chain, since string) string {
	return `concat_ws(' ',
	         coalesce(` + eventlog.AtPosition(`encode(`+eventlog.ChainStart+`, 'hex')`, "$1", "c.position") + `, repeat('0', 16)),
	         ` + eventlog.HoldsMark("$1", position, chain) + `,
	         ` + since + `::timestamptz IS NULL OR coalesce(` + eventlog.AtPosition("e.created_at", "$1", "c.position") + ` >= ` + since + `, false))`
}

// listArguments is how many arguments of a list's statement come before those of the
// filters: workspace, position, id, since, limit, and the position and bytes of the
// cursor's mark.
const listArguments = 7

// listStatement reads a page in list order, after a position. Bit i of given says
// that the filter on column i is used.
//
// The inner LIMIT is a literal so that the plan, which is made once for all values,
// is one for a few rows; $5 then takes as many as were asked for.
func listStatement(r *route.Resource, filters []filter, given uint, visible visibility) string {
	return rowsStatement(r, filters, statementKey{given: given, visible: visible}, pageLimit())
}

// wholeStatement reads a list after a position to its end: as listStatement or
// removedStatement does, but without an inner LIMIT, and $5 is NULL.
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

// logOlderRules stands for pageLog in the version row of removedStatement where not all
// rows that have left are kept: some rows were made by rules below removedRules.
const (
	logOlderRules = "older rules"
	removedRules  = 2
)

// removedTable is the table of the rows that have left the sight of a key; empty: none
// does.
func removedTable(r *route.Resource, visible visibility) string {
	if visible.pay {
		return r.Removed
	}
	return r.RemovedWithoutPay
}

// removedStatement is listStatement with the rows that have left. They are whole in
// base, so the other columns are empty.
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

// pageOf selects the first rows of a page from one table. The page begins at the later
// one of the cursor's position and that of the first entry published at or after $4.
func pageOf(table, columns, conditions, limit string) string {
	return `SELECT position, id, ` + columns + ` FROM ` + table + `
	  WHERE workspace_id = $1 AND (position, id) > (greatest($2, coalesce(log_position_since($1, $4), 0)), $3)` + conditions +
		` ORDER BY position, id` + limit
}

// filterConditions is what rows must meet by the filters that are given, as SQL that
// begins with AND.
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

// rowStatement reads one row by its id. The version row comes whether or not that
// row exists.
func rowStatement(r *route.Resource, visible visibility) string {
	columns := columnsOf(r, visible)
	return "(" + versionRow(columns, noLog) + `)
	UNION ALL
	(SELECT position, id, ` + columns + ` FROM ` + r.Table + ` WHERE workspace_id = $1 AND id = $2` + conditionsOf(r, visible) + `)`
}

// Positions that tell the rows of creditStatement apart.
const (
	positionCredit = -1
	positionNewer  = -2
)

// creditStatement reads a client's credit with a page of its history, newest first.
// Its rows: the version row; the credit, if there is one; a row if the history goes
// on after position $5; the history between the positions $3 and $4. $7 and $8 are the
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

// queryPairs splits a query. Unlike url.ParseQuery it leaves nothing out: what
// cannot be decoded is reported, and a semicolon is an ordinary character.
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

// visibility is which permission fields of a row a key sees.
type visibility struct{ pay, margin bool }

// visibilityOf follows docs/contract/service.md, "Field visibility by permission":
// margin needs pay:read as well.
func visibilityOf(p access.Permissions) visibility {
	pay := p.Has(access.PayRead)
	return visibility{pay: pay, margin: pay && p.Has(access.MarginRead)}
}

// visibilities are all that can occur.
func visibilities() []visibility {
	return []visibility{{}, {pay: true}, {pay: true, margin: true}}
}

// shows is the part of a visibility that shows rows or fields at an endpoint. A key that may see
// payouts sees no more of clients than one that may not.
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

// exceeds reports whether a visibility shows anything that another one does not.
func (v visibility) exceeds(other visibility) bool {
	return v.pay && !other.pay || v.margin && !other.margin
}

// Bits of a visibility's code.
const (
	codePay = 1 << iota
	codeMargin
)

// code is the visibility in a cursor.
func (v visibility) code() (code byte) {
	if v.pay {
		code |= codePay
	}
	if v.margin {
		code |= codeMargin
	}
	return code
}

// parseVisibility reads what code wrote, which the cursor's proof guarantees.
func parseVisibility(code byte) visibility {
	return visibility{pay: code&codePay != 0, margin: code&codeMargin != 0}
}
