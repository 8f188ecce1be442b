package readapi

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// totalsQuery is a request for totals: what it groups by, the fields of its rows, and the SQL of each
// field. That of count is empty: every statement has it in place of a position.
type totalsQuery struct {
	groups  []string
	fields  []jsonform.FieldDescription
	columns []string
}

// newTotalsQuery selects the fields that the request asks for and its key may see.
func newTotalsQuery(q *request) (t totalsQuery) {
	r := q.endpoint.Resource
	if given := q.params.get(q.endpoint.groups); given != "" {
		t.groups = strings.Split(given, ",")
	}
	add := func(name, column string) {
		if f := r.Field(name); q.visible.shows(f.Part) {
			t.fields, t.columns = append(t.fields, *f), append(t.columns, column)
		}
	}
	for i, g := range t.groups {
		add(g, groupShown(g, groupColumn(i)))
	}
	add("currency", "currency")
	for _, name := range r.Total.Separated {
		add(name, name+"::text")
	}
	add("count", "")
	for _, name := range r.Total.Sums {
		add(name, sumShown(name, r.Field(name).Form))
	}
	return t
}

// groupColumn is the column of a group within a statement.
func groupColumn(i int) string { return "group_" + strconv.Itoa(i+1) }

// groupValue is the SQL of what rows are grouped by.
func groupValue(group string) string {
	switch group {
	case route.ByClient, route.ByContractor:
		return group + "_id"
	case route.ByMonth:
		return "left(day, 7)"
	}
	return group
}

// groupShown is the SQL of how a group is shown. A party is a reference with the name that it has now,
// as in rows; no other text in its row can look like the name of the field after the name.
func groupShown(group, column string) string {
	after := map[string]string{route.ByClient: "status", route.ByContractor: "email"}[group]
	if after == "" {
		return column
	}
	return `CASE WHEN ` + column + ` IS NOT NULL THEN coalesce((
	    SELECT left(p.base, strpos(p.base, ',"` + after + `":') - 1) || '}' FROM ` + group + ` p WHERE p.workspace_id = $1 AND p.id = ` + column + `),
	    '{"id":"' || ` + column + ` || '","name":null}') END`
}

// sumShown is the SQL of a sum in its public form. The sums are of whole numbers and multiplication is
// exact, so nothing is rounded.
func sumShown(column string, form jsonform.Form) string {
	switch form {
	case domain.FormMoney, domain.FormSignedMoney:
		return "(" + column + " * 0.01)::text"
	case domain.FormHours:
		return "trim_scale(" + column + " * 0.0001)::text"
	}
	return column + "::text"
}

// totalsStatement returns the statement of totals. It selects rows as a list does, so it takes the
// list's indexes, adds them up, and only then sorts and names the groups. OFFSET 0 keeps these steps
// apart: a plan that sorted first would be chosen by statistics.
func totalsStatement(r *route.Resource, filters []filter, key statementKey, t *totalsQuery) string {
	const arguments = 1 // before those of the filters: the workspace
	var by []string
	selected := []string{"count(*) AS position"}
	for i, g := range t.groups {
		selected = append(selected, groupValue(g)+" AS "+groupColumn(i))
		by = append(by, groupColumn(i))
	}
	separated := append([]string{"currency"}, r.Total.Separated...)
	selected, by = append(selected, separated...), append(by, separated...)
	var columns, names []string
	for i, f := range t.fields {
		if slices.Contains(r.Total.Sums, f.Name) {
			selected = append(selected, "sum("+f.Name+") AS "+f.Name)
		}
		if t.columns[i] != "" {
			columns, names = append(columns, t.columns[i]), append(names, f.Name)
		}
	}
	conditions := conditionsOf(r, key.visible) + filterConditions(filters, key, arguments) + daysConditions(r, key, arguments)
	order := "position, id"
	if key.given == 0 && key.open == anyOpen {
		order = monthColumn(r) + ", position, id" // the index of months has all columns of the sums
	}
	listed := `SELECT * FROM ` + r.Table + ` WHERE workspace_id = $1` + conditions + ` ORDER BY ` + order + ` OFFSET 0`
	if byMonths(filters, key) {
		listed = ofMonths(r, r.Table, "*", conditions, "", " OFFSET 0", daysArguments(key, arguments))
	}
	return "(" + versionRow(strings.Join(names, ", "), noLog) + `)
	UNION ALL
	(SELECT position, '', ` + strings.Join(columns, ", ") + ` FROM (
	  SELECT ` + strings.Join(selected, ", ") + ` FROM (
	    ` + listed + `) listed
	  GROUP BY ` + strings.Join(by, ", ") + ` OFFSET 0) grouped
	ORDER BY ` + strings.Join(by, ", ") + fmt.Sprintf(" LIMIT %d)", route.MaxTotals+1)
}

// answerTotals answers with sums over the rows of a list (docs/contract/decisions.md, "Responses":
// totals).
func answerTotals(q *request) error {
	e := q.endpoint
	key, args := e.keyOf(q)
	t := newTotalsQuery(q)
	rows, v, err := q.queryVersion(totalsStatement(e.Resource, e.filters, key, &t), append([]any{q.key.WorkspaceID}, args...)...)
	if err != nil {
		return err
	}
	defer rows.close()
	body := q.api.answers.Buffer()
	defer q.api.answers.Release(body)
	if err := q.appendTotals(body, rows, &t, v.position); err != nil {
		return err
	}
	rows.close() // before the answer is written: a slow caller must not hold a connection
	return q.answerWith(body.Bytes(), v)
}

// appendTotals writes the answer in the form of the request.
func (q *request) appendTotals(body *bytes.Buffer, rows *rowReader, t *totalsQuery, position int64) error {
	var columns *answer.Columns
	var row []byte
	if q.form == answer.CSV {
		columns = answer.NewColumns(t.fields, q.visible.shows)
		body.Write(columns.AppendHeader(nil))
	} else {
		body.WriteString(`{"data":[`)
	}
	for {
		count, values, ok, err := rows.next()
		if err != nil {
			return q.readError(err)
		}
		if !ok {
			break
		}
		if q.rows == route.MaxTotals {
			q.rows = 0
			return answer.WrongParams([]answer.ParamError{{Field: "group_by", Message: "gives more than 10,000 rows; use a narrower filter, or group by less"}})
		}
		row = t.appendRow(row[:0], count, values[columnFragments:])
		if columns != nil {
			if row, err = columns.AppendRow(nil, row); err != nil {
				return q.readError(err)
			}
		} else if q.rows > 0 {
			body.WriteByte(',')
		}
		body.Write(row)
		q.rows++
	}
	if columns == nil {
		fmt.Fprintf(body, `],"log_position":%d}`, position)
	}
	return nil
}

// appendRow appends a row as JSON. values are those of the columns.
func (t *totalsQuery) appendRow(b []byte, count int64, values [][]byte) []byte {
	b = append(b, '{')
	for i, f := range t.fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), f.Name...), `":`...)
		if t.columns[i] == "" {
			b = strconv.AppendInt(b, count, 10)
			continue
		}
		value := values[0]
		values = values[1:]
		switch {
		case value == nil:
			b = append(b, "null"...)
		case f.Form == domain.FormObject, f.Form == domain.FormBool, f.Form == domain.FormHours, f.Form == domain.FormCount:
			b = append(b, value...) // JSON as it is
		default:
			b = jsonform.AppendString(b, string(value))
		}
	}
	return append(b, '}')
}
