package readapi

import (
	"fmt"
	"strconv"
	"strings"

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

// logOlderRules replaces pageLog in the version row of removedStatement if not all rows that have
// left are kept, because rules below removedRules made some rows.
const (
	logOlderRules = "older rules"
	removedRules  = 2
)

// Positions that mark the special rows of creditStatement.
const (
	positionCredit = -1
	positionNewer  = -2
)
