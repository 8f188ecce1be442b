package readapi

import (
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// route is one endpoint: what it is called, who may call it, what it takes and
// what it answers.
type route struct {
	pattern     string
	operation   string            // unique name, for generated clients
	group       string            // heading in the description
	permission  access.Permission // empty: any valid key
	summary     string
	description string
	params      []param
	shape       shape
	resource    *resource // what is answered; nil for shapes of their own
	answer      func(*call) error

	// version tells what an answer of this route changes with; nil: it has no
	// ETag that can be known without making the answer.
	version func(*call) (string, error)

	// Places of parameters in params; -1: the route has none of the kind.
	limit, cursor, since, kind int

	filters    []string       // columns, in the order of the parameters
	filterAt   []int          // their places in params
	statements map[key]string // of lists and single resources
}

// key picks a prepared text of a route's statement.
type key struct {
	given uint // bit i: filter i is used
	sight sight
}

// shape is how an answer is built up.
type shape int

const (
	shapeList shape = iota + 1
	shapeOne
	shapeCredit
	shapeMe
	shapeDocument
)

// routes finds a route by its path.
type routes struct {
	list    []*route
	mux     *chi.Mux
	byPath  map[string]*route
	scratch sync.Pool
}

// newRoutes completes the table.
func newRoutes() *routes {
	rs := &routes{mux: chi.NewRouter(), byPath: map[string]*route{}}
	rs.scratch.New = func() any { return chi.NewRouteContext() }
	for _, r := range routeTable() {
		r.limit, r.cursor, r.since, r.kind = -1, -1, -1, -1
		for i := range r.params {
			p := &r.params[i]
			switch {
			case p.form == formLimit:
				r.limit = i
			case p.form == formCursor:
				r.cursor = i
			case p.form == formTime:
				r.since = i
			case p.column != "":
				r.filters = append(r.filters, p.column)
				r.filterAt = append(r.filterAt, i)
			default:
				r.kind = i
			}
		}
		r.prepare()
		rs.list = append(rs.list, r)
		rs.byPath[r.pattern] = r
		// chi finds the row; the handler is the chain of checks, for all alike.
		rs.mux.Get(r.pattern, func(http.ResponseWriter, *http.Request) {})
	}
	return rs
}

// prepare writes the statements of every combination of filters and permissions.
func (r *route) prepare() {
	if r.resource == nil || r.resource.table == "" {
		return
	}
	r.statements = map[key]string{}
	for _, seen := range sights() {
		if r.shape == shapeOne {
			r.statements[key{sight: seen}] = oneStatement(r.resource, seen)
			continue
		}
		for given := range uint(1) << len(r.filters) {
			r.statements[key{given, seen}] = listStatement(r.resource, r.filters, given, seen)
		}
	}
}

// find returns the route of an escaped path and what its {id} stands for; nil
// for unknown paths. Two spellings of a path are the same path, but an escaped
// slash is no separator, and a slash at the end is a different path.
func (rs *routes) find(escaped string) (*route, string) {
	path := escaped
	if strings.Contains(escaped, "%") {
		if strings.Contains(strings.ToLower(escaped), "%2f") {
			return nil, ""
		}
		decoded, err := url.PathUnescape(escaped)
		if err != nil {
			return nil, ""
		}
		path = decoded
	}
	if !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.Contains(path, "//") {
		return nil, ""
	}
	found, ok := rs.scratch.Get().(*chi.Context)
	if !ok {
		return nil, ""
	}
	defer rs.scratch.Put(found)
	found.Reset()
	r := rs.byPath[rs.mux.Find(found, http.MethodGet, path)]
	return r, found.URLParam("id")
}
