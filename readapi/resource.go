package readapi

import (
	"strconv"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// resource is one kind of row: its read table and its fields.
type resource struct {
	name   string // in the description: "Invoice"
	table  string // read table
	fields []jsonform.FieldDescription

	// visible is a condition that every reader's rows meet, open one for those
	// without pay:read; empty: all rows.
	visible, open string
}

// has tells whether the resource has fields of a part, and so its column.
func (r *resource) has(part jsonform.Part) bool {
	for i := range r.fields {
		if r.fields[i].Part == part {
			return true
		}
	}
	return false
}

// columns are the fragments that a key may see, in the order in which they are
// put together.
func (r *resource) columns(seen sight) string {
	columns := "base"
	if seen.pay && r.has(domain.Pay) {
		columns += ", pay"
	}
	if seen.margin && r.has(domain.Margin) {
		columns += ", margin"
	}
	return columns
}

// conditions is what a row must meet beside the filters, as SQL that begins with
// AND.
func (r *resource) conditions(seen sight) string {
	var b strings.Builder
	if r.visible != "" {
		b.WriteString(" AND " + r.visible)
	}
	if r.open != "" && !seen.pay {
		b.WriteString(" AND " + r.open)
	}
	return b.String()
}

// sight is what a key may see of rows that it may read.
type sight struct{ pay, margin bool }

// sightOf follows docs/contract/service.md, "Field visibility by permission": margin is for
// keys that have pay:read as well.
func sightOf(p access.Permissions) sight {
	pay := p.Has(access.PayRead)
	return sight{pay: pay, margin: pay && p.Has(access.MarginRead)}
}

// sights are all there are.
func sights() []sight {
	return []sight{{}, {pay: true}, {pay: true, margin: true}}
}

// standing selects where the workspace stands, as the first row of an answer:
// the visible position and, as text, when it moved. It is part of the statement
// that reads the rows, so that both are of one snapshot.
const standing = `SELECT position, coalesce((extract(epoch FROM moved_at) * 1000000)::bigint, 0)::text AS id
	  FROM log_checkpoint WHERE workspace_id = $1 AND consumer = '` + eventlog.ReadModels + `'`

// nulls fills the columns that the first row does not have.
func nulls(columns string) string {
	return strings.Repeat(", NULL::text", strings.Count(columns, ",")+1)
}

// listFixed is how many arguments of a list's statement come before the filters:
// workspace, position, id, since, limit.
const listFixed = 5

// listStatement reads a page in list order, after a place. Bit i of given says
// that the filter on column i is used.
//
// The inner LIMIT is a literal so that the plan, which is made once for all
// values, is one for a few rows; $5 then takes as many as were asked for. The
// place is the later one of the cursor's and of the first entry published at or
// after $4.
func listStatement(r *resource, filters []string, given uint, seen sight) string {
	columns := r.columns(seen)
	var b strings.Builder
	b.WriteString("(" + standing0(columns) + `)
	UNION ALL
	(SELECT position, id, ` + columns + ` FROM (SELECT position, id, ` + columns + ` FROM ` + r.table + `
	  WHERE workspace_id = $1 AND (position, id) > (greatest($2, coalesce(log_position_since($1, $4), 0)), $3)`)
	b.WriteString(r.conditions(seen))
	n := listFixed
	for i, column := range filters {
		if given&(1<<i) != 0 {
			n++
			b.WriteString(" AND " + column + " = $" + strconv.Itoa(n))
		}
	}
	b.WriteString(` ORDER BY position, id LIMIT ` + strconv.Itoa(maxLimit+1) + `) page LIMIT $5)`)
	return b.String()
}

func standing0(columns string) string {
	return strings.Replace(standing, " AS id", " AS id"+nulls(columns), 1)
}

// oneStatement reads one row by its id; the first row is there whether or not it
// exists.
func oneStatement(r *resource, seen sight) string {
	columns := r.columns(seen)
	return "(" + standing0(columns) + `)
	UNION ALL
	(SELECT position, id, ` + columns + ` FROM ` + r.table + ` WHERE workspace_id = $1 AND id = $2` + r.conditions(seen) + `)`
}

// creditStatement reads a client's credit with a page of its history, newest
// first. Rows: where the workspace stands; the credit (none: no credit); whether
// newer history than $3 exists; the history between the places $3 and $4. Their
// ids tell them apart.
func creditStatement() string {
	return "(" + standing0("base") + `)
	UNION ALL
	(SELECT -1, 'credit', base FROM client_credit WHERE workspace_id = $1 AND id = $2)
	UNION ALL
	(SELECT -2, 'newer', '' WHERE EXISTS (SELECT FROM credit_move WHERE workspace_id = $1 AND client_id = $2 AND position > $5))
	UNION ALL
	(SELECT position, id, base FROM (SELECT position, id, base FROM credit_move
	  WHERE workspace_id = $1 AND client_id = $2 AND position > $3 AND position < $4
	  ORDER BY position DESC LIMIT ` + strconv.Itoa(maxLimit+1) + `) page LIMIT $6)`
}
