package readapi

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

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
