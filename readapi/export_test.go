package readapi

import (
	"context"
	"time"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// Routes are the patterns of the route table with their permissions.
func Routes() map[string]access.Permission {
	routes := map[string]access.Permission{}
	for _, r := range routeTable() {
		routes[r.pattern] = r.permission
	}
	return routes
}

// Statement is one prepared text, for the tests of plans.
type Statement struct {
	Path    string
	Table   string
	Filters []string // columns that are filtered, in the order of the arguments after the fixed ones
	One     bool     // reads one row by id
	SQL     string
}

// Statements are all texts that read a read table.
func Statements() []Statement {
	var list []Statement
	for _, r := range newRoutes().list {
		for chosen, sql := range r.statements {
			s := Statement{Path: r.pattern, Table: r.resource.table, SQL: sql, One: r.shape == shapeOne}
			for i, column := range r.filters {
				if chosen.given&(1<<i) != 0 {
					s.Filters = append(s.Filters, column)
				}
			}
			list = append(list, s)
		}
	}
	return list
}

// CreditStatement reads a credit.
func CreditStatement() string { return creditStatement() }

// InAddress is what the second check asks.
func (a *API) InAddress(uri, query string) bool { return a.keys.inAddress(uri, query) }

// OpenCursor opens a cursor sealed by SealCursor.
func (a *API) OpenCursor(circumstances []byte, cursor string) ([]byte, bool) {
	return a.cursors.open(circumstances, cursor)
}

// SealCursor seals a place.
func (a *API) SealCursor(circumstances, place []byte) string {
	return a.cursors.seal(circumstances, place)
}

// Gather asks numbers together, for the tests of how.
type Gather struct{ g *gather[int] }

// NewGather has so many rounds under way at most.
func NewGather(rounds int, ask func(ctx context.Context, questions []*int)) *Gather {
	return &Gather{&gather[int]{ask: ask, rounds: rounds, patience: time.Minute}}
}

// Put waits until a question is answered.
func (g *Gather) Put(ctx context.Context, question *int) error { return g.g.put(ctx, question) }
