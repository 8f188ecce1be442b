package requests

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// filter is what requests are searched by. Empty parts select every request.
type filter struct {
	key      string    // its id
	status   string    // a status, or the first digit: 2 is with 3
	from, to time.Time // a time from, and before to

	// One of what was typed into the search.
	requestID string
	path      string // percent-encoded
	route     string // the pattern
}

// isZero tells whether it selects every request.
func (f *filter) isZero() bool { return *f == filter{} }

// ranged tells whether it has a time of its own.
func (f *filter) ranged() bool { return !f.from.IsZero() || !f.to.IsZero() }

// searched tells whether it looks for an id, a path or a route. Refused requests have
// none, because they are only counted.
func (f *filter) searched() bool { return f.requestID != "" || f.path != "" || f.route != "" }

// driver is the filter for which an index is used.
type driver int

const (
	byTime driver = iota // none
	byRequestID
	byPath
	byError
	byKey
)

// driving chooses the filter that leaves the fewest requests.
func (f *filter) driving() driver {
	from, _, ok := f.statuses()
	switch {
	case f.requestID != "":
		return byRequestID
	case f.path != "":
		return byPath
	case ok && from >= 400:
		return byError
	case f.key != "":
		return byKey
	}
	return byTime
}

// statuses are those from the first to before the second; false: all.
func (f *filter) statuses() (from, to int, ok bool) {
	n, err := strconv.Atoi(f.status)
	switch {
	case err != nil:
		return 0, 0, false
	case n == 2:
		return 200, 400, true
	case n < 10:
		return n * 100, n*100 + 100, true
	}
	return n, n + 1, true
}

// meets tells whether a status is one of the filter's.
func (f *filter) meets(status int) bool {
	from, to, ok := f.statuses()
	return !ok || from <= status && status < to
}

// search sets what was typed: the id of a request, a path, an address of the API, or a
// route such as /v1/invoices/{id}.
func (f *filter) search(text string) {
	switch {
	case text == "":
		return
	case !strings.Contains(text, "/"):
		f.requestID = text
		return
	case strings.HasSuffix(text, "…"): // a path that is too long to be kept in full
		f.path = text
		return
	}
	u, err := url.Parse(text)
	if err != nil {
		f.path = text
		return
	}
	if !strings.HasPrefix(u.Path, "/") {
		u.Path, u.RawPath = "/"+u.Path, ""
	}
	if slices.ContainsFunc(route.Table(), func(r route.Route) bool { return r.Path == u.Path }) {
		f.route = u.Path
		return
	}
	f.path = u.EscapedPath()
}

// isStatus tells whether a text is a status or the first digit of one.
func isStatus(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && (n == 2 || n == 4 || n == 5 || 200 <= n && n < 600)
}

// statusChoices are the answers to choose from: classes, and the statuses that accepted
// requests get.
func statusChoices() (classes, statuses []web.Pair) {
	return []web.Pair{
			{Name: "2", Value: "Succeeded (2xx, 3xx)"}, {Name: "4", Value: "Client errors (4xx)"}, {Name: "5", Value: "Server errors (5xx)"},
		}, []web.Pair{
			{Name: "200", Value: "200 OK"}, {Name: "204", Value: "204 No content"}, {Name: "304", Value: "304 Not modified"},
			{Name: "400", Value: "400 Wrong request"}, {Name: "403", Value: "403 Missing permission"}, {Name: "404", Value: "404 Not found"},
			{Name: "499", Value: "499 Caller had gone"}, {Name: "500", Value: "500 Internal error"}, {Name: "503", Value: "503 Unavailable"},
		}
}
