package readapi

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

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

// selectionOf is columnsOf for reading from the table: it names what stands in place of a column.
func selectionOf(r *route.Resource, visible visibility) string {
	columns := columnsOf(r, visible)
	if r.Base != "" {
		columns = r.Base + " AS " + columns
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

// pageStatement returns the statement that reads a page in list order, after a position.
//
// The inner LIMIT is a literal, so that the plan, which is made once for all values, expects a few
// rows; $5 then takes as many as the request asks for.
func pageStatement(r *route.Resource, filters []filter, key statementKey) string {
	return listStatement(r, filters, key, " LIMIT "+strconv.Itoa(route.MaxLimit+1))
}

// wholeStatement returns the statement that reads a list from a position to its end. It is
// pageStatement without the inner LIMIT; $5 is NULL.
func wholeStatement(r *route.Resource, filters []filter, key statementKey) string {
	return listStatement(r, filters, key, "")
}

// listStatement reads the rows of a list and, if key.removed is set, those that have left it.
func listStatement(r *route.Resource, filters []filter, key statementKey, limit string) string {
	removed := ""
	if key.removed {
		removed = removedTable(r, key.visible)
	}
	columns := columnsOf(r, key.visible)
	filtered := filterConditions(filters, key, listArguments)
	page := pageOf(r, r.Table, selectionOf(r, key.visible), conditionsOf(r, key.visible)+filtered, limit, filters, key)
	if removed != "" {
		// The column base holds such a row completely, so the other columns are empty.
		left := "base" + strings.Repeat(", ''", strings.Count(columns, ","))
		page = "(" + page + `)
	  UNION ALL
	  (` + pageOf(&route.Resource{}, removed, left, filtered, limit, filters, key) + `)
	  ORDER BY position, id`
	}
	log := pageLog("$6", "$7", "$4")
	if removed != "" {
		log = fmt.Sprintf("CASE WHEN c.position > 0 AND c.rules < %d THEN '%s' ELSE %s END", removedRules, logOlderRules, log)
	}
	return "(" + versionRow(columns, log) + `)
	UNION ALL
	(SELECT position, id, ` + columns + ` FROM (` + page + `) page LIMIT $5)`
}

// removedTable returns the table of the rows that have left the sight of a key; empty: rows never
// leave.
func removedTable(r *route.Resource, visible visibility) string {
	if visible.pay {
		return r.Removed
	}
	return r.RemovedWithoutPay
}

// pageOf returns the SQL that selects the first rows of a page from one table. The page begins at
// the cursor's position or at the first entry published at or after $4, whichever is later.
func pageOf(r *route.Resource, table, columns, conditions, limit string, filters []filter, key statementKey) string {
	conditions = ` AND (position, id) > (greatest($2, coalesce(log_position_since($1, $4), 0)), $3)` + conditions +
		daysConditions(r, key, listArguments)
	inOrder := ` ORDER BY position, id` + limit
	if limit == "" || !byMonths(filters, key) {
		return `SELECT position, id, ` + columns + ` FROM ` + table + ` WHERE workspace_id = $1` + conditions + inOrder
	}
	return ofMonths(r, table, "position, id, "+columns, conditions, "", limit, daysArguments(key, listArguments)) + inOrder
}

// byMonths reports whether rows of a range of days are read month by month, so that it takes as long as
// the months of the range have rows, however many others there are. For a page the first rows of each
// month are enough. The rows of one party or period are few enough to be read in their own order.
func byMonths(filters []filter, key statementKey) bool {
	if !key.days {
		return false
	}
	for i, f := range filters {
		if key.given&(1<<i) != 0 && f.column != "status" && f.column != "type" && f.column != "direction" {
			return false
		}
	}
	return true
}

// monthColumn is the SQL of the month that a row's first day is in, and, if it may be another one, that
// of its last day. The index of months has it.
func monthColumn(r *route.Resource) string {
	if r.LastDay != "" {
		return "(left(day, 7) || left(" + r.LastDay + ", 7))"
	}
	return "left(day, 7)"
}

// ofMonths returns the SQL that selects rows of a workspace month by month: of each up to limit, in the
// order of position and id, or, if direction is DESC, from the end. It finds the months themselves step by step in the index of months, which
// the order demands whatever the statistics say: no other one has it, and sorting is off.
func ofMonths(r *route.Resource, table, columns, conditions, direction, limit string, days daysParameters) string {
	month := monthColumn(r)
	next := func(condition string) string {
		return `SELECT ` + month + ` AS month FROM ` + table + ` WHERE workspace_id = $1 AND ` + month + condition +
			` AND ` + month + ` <= left(` + days.to + `, 7) || ':' ORDER BY ` + month + ` LIMIT 1` // a colon is after all digits
	}
	return `SELECT in_month.* FROM (
	    WITH RECURSIVE months AS (
	      (` + next(" >= left("+days.low+", 7)") + `)
	      UNION ALL
	      SELECT (` + next(" > months.month") + `) FROM months WHERE months.month IS NOT NULL)
	    SELECT month FROM months WHERE right(month, 7) >= left(` + days.from + `, 7)) months CROSS JOIN LATERAL (
	    SELECT ` + columns + ` FROM ` + table + ` WHERE workspace_id = $1 AND ` + month + ` >= months.month AND ` + month + ` <= months.month` + conditions +
		` ORDER BY ` + month + direction + `, position` + direction + `, id` + direction + limit + `) in_month`
}

// filterConditions returns the conditions of the given filters, whose arguments follow so many others,
// without those of days. It is SQL that begins with AND, or empty.
func filterConditions(filters []filter, key statementKey, arguments int) string {
	var b strings.Builder
	for i, f := range filters {
		if key.given&(1<<i) != 0 {
			arguments++
			b.WriteString(" AND " + f.column + " = $" + strconv.Itoa(arguments))
		}
	}
	switch key.open { // literals, so that the index of open invoices fits
	case onlyOpen:
		b.WriteString(" AND open")
	case notOpen:
		b.WriteString(" AND NOT open")
	case anyOpen:
	}
	return b.String()
}

// daysParameters are the parameters of a range of days, as texts. Rows that begin before low cannot
// reach into the range.
type daysParameters struct{ from, to, low string }

// daysArguments returns the parameters of the range. They follow so many other arguments and those of
// the filters.
func daysArguments(key statementKey, arguments int) daysParameters {
	arguments += bits.OnesCount(key.given)
	parameter := func(n int) string { return "$" + strconv.Itoa(arguments+n) + "::text" }
	return daysParameters{from: parameter(1), to: parameter(2), low: parameter(3)}
}

// daysConditions returns the conditions of the range of days. It is SQL that begins with AND, or
// empty.
func daysConditions(r *route.Resource, key statementKey, arguments int) string {
	if !key.days {
		return ""
	}
	days, last := daysArguments(key, arguments), "day"
	if r.LastDay != "" {
		last = r.LastDay
	}
	return ` AND day <= ` + days.to + ` AND ` + last + ` >= ` + days.from + ` AND day >= ` + days.low
}

// longestPeriod is how many days a period has at most.
const longestPeriod = 31

// daysValues returns the arguments of a range of days. Without an end it goes as far as days can.
func daysValues(r *route.Resource, from, to string) []any {
	if to == "" {
		to = "9999-12-31"
	}
	low := from
	if first, err := time.Parse(time.DateOnly, from); err == nil && r.LastDay != "" {
		low = first.AddDate(0, 0, 1-longestPeriod).Format(time.DateOnly)
	}
	return []any{from, to, low}
}

// rowStatement returns the statement that reads one row by its id. Its version row comes whether or
// not that row exists.
func rowStatement(r *route.Resource, visible visibility) string {
	columns := columnsOf(r, visible)
	return "(" + versionRow(columns, noLog) + `)
	UNION ALL
	(SELECT position, id, ` + selectionOf(r, visible) + ` FROM ` + r.Table + ` WHERE workspace_id = $1 AND id = $2` + conditionsOf(r, visible) + `)`
}

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

// logOlderRules stands in a version row in place of its log argument if not all rows that have left are
// kept, because rules below removedRules made some rows.
const (
	logOlderRules = "older rules"
	removedRules  = 2
)

// Positions that mark the special rows of creditStatement.
const (
	positionCredit = -1
	positionNewer  = -2
)
