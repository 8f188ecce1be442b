package readapi

import (
	"context"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// Statement is one prepared statement, for the tests of plans.
type Statement struct {
	Path    string
	Table   string
	Filters []string // columns that are filtered, in the order of the arguments after the fixed ones
	One     bool     // reads one row by id
	Removed bool     // with the rows that have left
	Whole   bool     // reads the list to its end
	SQL     string
}

// Statements are all statements that read a read table, without CreditStatement.
func Statements() []Statement {
	var list []Statement
	for _, r := range route.Table() {
		if r.Kind != route.Rows && r.Kind != route.Row {
			continue
		}
		e := newEndpoint(r)
		for key, sql := range e.statements {
			s := Statement{Path: r.Path, Table: r.Resource.Table, SQL: sql, One: r.Kind == route.Row, Removed: key.removed}
			for i, f := range e.filters {
				if key.given&(1<<i) != 0 {
					s.Filters = append(s.Filters, f.column)
				}
			}
			list = append(list, s)
			if r.Kind == route.Rows {
				s.SQL, s.Whole = e.whole(key), true
				list = append(list, s)
			}
		}
	}
	return list
}

// CreditStatement reads a credit.
func CreditStatement() string { return creditStatement() }

// PreferredWait reads Prefer.
func PreferredWait(headers []string) int { return preferredWait(headers) }

// Shares are the connections for pages.
type Shares struct{ *shares }

// NewShares makes as many connections as one workspace may have.
func NewShares(n int) Shares { return Shares{newShares(n, n, time.Minute)} }

// Take uses a connection.
func (s Shares) Take(ctx context.Context) (release func(), err error) { return s.take(ctx, "acme") }

// Yield lets pages go first.
func (s Shares) Yield(ctx context.Context, most time.Duration) { s.yield(ctx, most) }

// InURL is what the second check asks.
func (a *API) InURL(uri, query string) bool { return a.keys.inURL(uri, query) }

// OpenCursor opens a cursor sealed by SealCursor.
func (a *API) OpenCursor(associated []byte, cursor string) ([]byte, bool) {
	return a.cursors.open(associated, cursor)
}

// SealCursor seals a position.
func (a *API) SealCursor(associated, position []byte) string {
	return a.cursors.seal(associated, position)
}

// FirstCursor is what version 0.1.0 would have given in place of a cursor of a list.
func (a *API) FirstCursor(workspaceID, path, pathID, query, cursor string) string {
	q := &request{api: a, key: &access.Key{WorkspaceID: workspaceID}, pathID: pathID}
	table := route.Table()
	q.endpoint = newEndpoint(table[slices.IndexFunc(table, func(r route.Route) bool { return r.Path == path })])
	q.params.parse(q.endpoint.Params, query+"&cursor="+cursor)
	position := q.position()
	mark, rest := cutMark(position)
	if q.endpoint.Kind == route.Events {
		rest = listPosition{position: mark.Position}.append(nil)[9:]
	}
	return a.firstCursors.seal(q.firstAssociatedData(), rest)
}
