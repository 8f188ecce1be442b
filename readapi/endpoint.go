package readapi

import "github.com/ledgerfeed/ledgerfeed/readapi/route"

// endpoint is a route with what its requests need, made once.
type endpoint struct {
	route.Route

	// answer writes the answer to a request that passed all checks.
	answer func(*request) error

	// version returns the version of the answer. Nil: only making the answer tells.
	version func(*request) (version, error)

	// Indexes of parameters in Params; -1: the endpoint has none of the form.
	limit, cursor, since, enum, include int

	filters    []filter
	statements map[statementKey]string // of Rows, Row and Credit
}

// filter is a parameter that a column must equal.
type filter struct {
	param  int // index in Params
	column string
}

// statementKey tells the statements of an endpoint apart.
type statementKey struct {
	given   uint // bit i: filter i is used
	visible visibility
	removed bool // with the rows that have left
}

func newEndpoint(r route.Route) *endpoint {
	if len(r.Params) > maxParams {
		panic("readapi: " + r.Path + " has too many parameters") // by the route table, which every test uses
	}
	e := &endpoint{Route: r, limit: -1, cursor: -1, since: -1, enum: -1, include: -1, statements: map[statementKey]string{}}
	for i := range e.Params {
		p := &e.Params[i]
		switch {
		case p.Form == route.FormLimit:
			e.limit = i
		case p.Form == route.FormCursor:
			e.cursor = i
		case p.Form == route.FormTime:
			e.since = i
		case p.Form == route.FormInclude:
			e.include = i
		case p.Column != "":
			e.filters = append(e.filters, filter{param: i, column: p.Column})
		default:
			e.enum = i
		}
	}
	for _, visible := range visibilities() {
		switch e.Kind {
		case route.Row:
			e.statements[statementKey{visible: visible}] = rowStatement(e.Resource, visible)
		case route.Rows:
			for given := range uint(1) << len(e.filters) {
				e.statements[statementKey{given: given, visible: visible}] = listStatement(e.Resource, e.filters, given, visible)
				e.statements[statementKey{given, visible, true}] = removedStatement(e.Resource, e.filters, given, visible)
			}
		case route.Credit:
			e.statements[statementKey{visible: visible}] = creditStatement()
		default:
		}
	}
	return e
}

// cacheable reports whether answers are cached. A cached answer needs a read of the
// version, so the cache pays only where an answer costs more than that: a single row
// does not.
func (e *endpoint) cacheable() bool { return e.version != nil && e.Kind != route.Row }

// whole returns the statement that reads the whole list for a key. It is made each time:
// that costs nothing beside the list.
func (e *endpoint) whole(key statementKey) string { return wholeStatement(e.Resource, e.filters, key) }

// statement returns the statement for a key.
func (e *endpoint) statement(key statementKey) string { return e.statements[key] }
