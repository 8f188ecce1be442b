package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// requestsPageSize is how many requests a page lists.
const requestsPageSize = 50

// requestsUsual is the time range that the chart shows by default.
const requestsUsual = "hour"

// Requests serves the pages of the request log.
type Requests struct {
	Pool      pg.DB
	Data      *Data
	Keys      *access.Store
	Rollups   *rollup.Reader
	Retention time.Duration // how long the log is kept
	APIURL    string        // for "Copy as curl"
}

// Routes returns the routes of the pages.
func (p *Requests) Routes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Pattern: "/requests", Access: web.SignedIn, Heavy: true, Handle: p.listPage},
		{Method: http.MethodGet, Pattern: "/requests/{record}", Access: web.SignedIn, Handle: p.requestPage},
	}
}

// requestsListBody is the template data of the list of requests.
type requestsListBody struct {
	List     []row
	Chart    *drawing   // nil: the log has nothing in the filter's time range
	Bound    int64      // how many rows a chart counts at most
	Switch   []web.Link // to other time ranges of the chart
	Presets  []web.Link // to filters that are often chosen, beside the present ones
	Chosen   web.Choice
	Refused  []refusal
	Filter   filter
	Find     string     // what was searched for, as it was typed
	Fault    string     // what is wrong with the filter; empty: nothing
	Classes  []web.Pair // of statuses, to choose from
	Statuses []web.Pair
	Keys     []web.Pair // id and name
	End      *position  // where the search stopped early; nil: it did not
	Scanned  int64      // how many requests it examines at most
	web.Pager
}

// Filtered reports whether the list is filtered.
func (b *requestsListBody) Filtered() bool { return !b.Filter.isZero() }

// Key and Status are filters.
func (b *requestsListBody) Key() string    { return b.Filter.key }
func (b *requestsListBody) Status() string { return b.Filter.status }

// From and To are the fields for the time.
func (b *requestsListBody) From() web.Moment {
	return web.Moment{Name: "From", Field: "from", At: b.Filter.from}
}
func (b *requestsListBody) To() web.Moment {
	return web.Moment{Name: "To", Field: "to", At: b.Filter.to}
}

// Ranged reports whether the filter has its own time range.
func (b *requestsListBody) Ranged() bool { return b.Filter.ranged() }

// address returns the address of a page with the same filters and chart.
func (b *requestsListBody) address(cursor string) string {
	return b.rangeAddress(b.Chosen.Name, cursor)
}

func (b *requestsListBody) rangeAddress(span, cursor string) string {
	if span == requestsUsual {
		span = ""
	}
	f := &b.Filter
	return web.Address("/requests", "find", b.Find, "key", f.key, "status", f.status, "from", b.From().UTC(), "to", b.To().UTC(), "range", span, "cursor", cursor)
}

// setPresets sets the links to filters that are often chosen. A status that is chosen already leads
// to the page without it.
func (b *requestsListBody) setPresets(now time.Time) {
	add := func(label string, current bool, change func(*filter)) {
		other := *b
		change(&other.Filter)
		b.Presets = append(b.Presets, web.Link{Label: label, URL: other.address(""), Current: current})
	}
	for _, last := range []struct {
		label string
		span  time.Duration
	}{{"Last hour", time.Hour}, {"Last 24 hours", 24 * time.Hour}} {
		add(last.label, false, func(f *filter) { f.from, f.to = now.Add(-last.span).Truncate(time.Minute), time.Time{} })
	}
	for _, only := range []web.Pair{{Name: errorsOnly, Value: "Errors only"}, {Name: "5", Value: "Server errors"}} {
		current := b.Filter.status == only.Name
		add(only.Value, current, func(f *filter) {
			f.status = only.Name
			if current {
				f.status = ""
			}
		})
	}
}

func (p *Requests) listPage(r *web.Request) error {
	body := &requestsListBody{Chosen: web.Choose(r.Query("range"), requestsUsual), Scanned: maxScan, Bound: maxCounted}
	ctx := r.Context()
	var err error
	var open []string
	if body.Keys, open, err = p.keys(r); err != nil {
		return err
	}
	body.read(r)
	q := &requestsQuery{open: open, workspaceID: r.Session.WorkspaceID, filter: body.Filter, since: r.Now.Add(-p.Retention), now: r.Now, start: newest(), limit: requestsPageSize}
	if cursor := r.Query("cursor"); cursor != "" {
		start, err := web.ParseCursor[position](cursor)
		if err != nil {
			return err
		}
		q.start = *start
	}
	body.setPresets(r.Now)
	body.Switch = body.Chosen.Switch(func(name string) string { return body.rangeAddress(name, "") })
	if body.Fault == "" {
		if err := p.fill(ctx, body, q); err != nil {
			return err
		}
		p.name(r, body.List)
	}
	return r.Show("requests", web.View{Title: "Request log", Section: "requests", Body: body})
}

// read reads the filters from the address.
func (b *requestsListBody) read(r *web.Request) {
	f := &b.Filter
	if key := r.Query("key"); nameOf(key, b.Keys) != "" {
		f.key = key
	}
	b.Classes, b.Statuses = statusChoices()
	if s := r.Query("status"); isStatus(s) {
		f.status = s
		if nameOf(s, b.Classes) == "" && nameOf(s, b.Statuses) == "" {
			b.Statuses = append(b.Statuses, web.Pair{Name: s, Value: s})
		}
	}
	b.Find = r.Query("find")
	f.search(b.Find)
	for _, m := range []struct {
		name string
		t    *time.Time
	}{{"from", &f.from}, {"to", &f.to}} {
		text := r.Query(m.name)
		if text == "" {
			continue
		}
		var ok bool
		if *m.t, ok = web.ParseMoment(text); !ok {
			b.Fault = "Enter a date and a time."
		}
	}
	switch {
	case !f.to.IsZero() && !f.from.Before(f.to):
		b.Fault = "The end has to be after the beginning."
	case f.from.After(r.Now):
		b.Fault = "The beginning is in the future."
	}
}

// fill reads the requests and draws the chart.
func (p *Requests) fill(ctx context.Context, body *requestsListBody, q *requestsQuery) error {
	f, err := requestsFind(ctx, p.Pool, q)
	if err != nil {
		return err
	}
	if q.start.Newer && !f.more && f.end == nil { // nothing is newer than this page, so it is the first one
		q.start = newest()
		if f, err = requestsFind(ctx, p.Pool, q); err != nil {
			return err
		}
	}
	body.List, body.End = f.list, f.end
	hide(body.List, q.open)
	for i := range body.List {
		body.List[i].KeyName = nameOf(body.List[i].KeyID, body.Keys)
	}
	body.setLinks(q, f)
	if s, ok := spanOf(&q.filter, body.Chosen, q.since, q.now); ok {
		if body.Chart, err = p.draw(ctx, q, s); err != nil {
			return err
		}
	}
	if !q.ranged() && !q.searched() && q.status == "" {
		body.Refused, err = refusals(ctx, p.Pool, q.workspaceID, q.key, q.now.Add(-24*time.Hour))
	}
	return err
}

// name says which rows requests are about.
func (p *Requests) name(r *web.Request, list []row) {
	var rows []rowID
	for i := range list {
		rows = append(rows, rowOfRequest(&list[i]))
	}
	n := p.Data.names(r, rows)
	for i := range list {
		row := rowOfRequest(&list[i])
		if _, found := n.of[row]; found {
			list[i].About = n.refer(kindOf(row.Slug), row, "")
		}
	}
}

// setLinks sets the addresses of the neighbouring pages.
func (b *requestsListBody) setLinks(q *requestsQuery, f *found) {
	older, newer := f.more, q.start.ID != uuid.Nil
	if q.start.Newer {
		older, newer = true, f.more
	}
	if q.start.ID != uuid.Nil {
		b.Newest = b.address("")
	}
	if n := len(f.list); n > 0 {
		if older {
			b.Older = b.address(f.list[n-1].Cursor())
		}
		if newer {
			first := position{f.list[0].At, f.list[0].RecordID, true}
			b.Newer = b.address(web.FormatCursor(first))
		}
	}
	if f.end != nil {
		if next := b.address(web.FormatCursor(f.end)); f.end.Newer {
			b.Newer = next
		} else {
			b.Older = next
		}
	}
}

// keys returns the ids and names of the workspace's keys. open has the ids of the keys that see no more
// than the session; nil: the session sees everything. The session is not shown what the other keys read.
func (p *Requests) keys(r *web.Request) (list []web.Pair, open []string, err error) {
	records, err := p.Keys.List(r.Context(), r.Session.WorkspaceID)
	if err != nil {
		return nil, nil, err
	}
	if !r.Session.MaySeePay() {
		open = []string{}
	}
	for _, k := range records {
		list = append(list, web.Pair{Name: k.ID, Value: k.Name})
		if open != nil && !k.Permissions.Has(access.PayRead) && !k.Permissions.Has(access.MarginRead) {
			open = append(open, k.ID)
		}
	}
	return list, open, nil
}

// hide takes out of requests what a session may not know that sees only what the keys in open see.
func hide(list []row, open []string) {
	for i := range list {
		if r := &list[i]; open != nil && !slices.Contains(open, r.KeyID) {
			r.Hidden = true
			r.Path, r.Rows, r.Bytes, r.Problem = "", 0, 0, nil
		}
	}
}

// nameOf returns the value that a list has for an id; empty: none.
func nameOf(id string, list []web.Pair) string {
	if i := slices.IndexFunc(list, func(p web.Pair) bool { return p.Name == id }); i >= 0 {
		return list[i].Value
	}
	return ""
}

// requestBody is the template data of the page of one request.
type requestBody struct {
	*row
	Curl string // a curl command that repeats it; empty: the path is not known
}

func (p *Requests) requestPage(r *web.Request) error {
	at, err := web.ParseCursor[position](r.Path("record"))
	if err != nil {
		return web.ErrNotFound
	}
	found, err := findOne(r.Context(), p.Pool, r.Session.WorkspaceID, *at)
	if err != nil {
		return err
	}
	keys, open, err := p.keys(r)
	if err != nil {
		return err
	}
	found.KeyName = nameOf(found.KeyID, keys)
	one := []row{*found}
	hide(one, open)
	p.name(r, one)
	found = &one[0]
	body := &requestBody{row: found, Curl: curl(p.APIURL, found)}
	return r.Show("request", web.View{Title: "Request", Section: "requests", Body: body})
}

// row is a request of the request log.
type row struct {
	At       time.Time
	RecordID uuid.UUID
	ID       string // the header X-Request-Id
	KeyID    string
	Prefix   string
	Method   string
	Route    string // the pattern; empty: an unknown path
	Status   int
	Micros   int64
	Bytes    int64
	Rows     int64
	KeyName  string    // empty for a key that no longer exists
	About    reference // the row that the path names; zero: none
	Hidden   bool      // the key sees more than the person, who is not shown what it read

	// Empty for requests that an earlier version recorded.
	Path    string // percent-encoded; empty if it is the same as Route
	Address string // of the caller
	Agent   string // the header User-Agent
	Problem *requestlog.Problem
}

// Target returns the path as far as it is known: the route if Path is empty.
func (r *row) Target() string { return cmp.Or(r.Path, r.Route) }

// Why says in a few words what an error was about; empty if the status says it.
func (r *row) Why() string {
	switch {
	case r.Problem == nil:
		return ""
	case r.Problem.Permission != "":
		return "lacks " + r.Problem.Permission
	case len(r.Problem.Errors) == 1:
		return r.Problem.Errors[0].Field + " " + r.Problem.Errors[0].Message
	}
	names := make([]string, len(r.Problem.Errors))
	for i, e := range r.Problem.Errors {
		names[i] = e.Field
	}
	return strings.Join(names, ", ")
}

// Cursor identifies the request in addresses.
func (r *row) Cursor() string { return web.FormatCursor(position{At: r.At, ID: r.RecordID}) }

// Millis returns how long the request took, in milliseconds.
func (r *row) Millis() float64 { return float64(r.Micros) / 1000 }

// Look returns the badge of the status.
func (r *row) Look() string {
	switch {
	case r.Status >= 500:
		return "bad"
	case r.Status >= 400:
		return "warn"
	}
	return "good"
}

// filter selects requests. Empty fields select every request.
type filter struct {
	key      string    // its id
	status   string    // a status, its first digit (2 includes 3xx), or errorsOnly
	from, to time.Time // from is inclusive, to is exclusive

	// The search text sets one of these.
	requestID string
	path      string // percent-encoded
	route     string // the pattern
}

// errorsOnly is the status that selects client errors and server errors.
const errorsOnly = "errors"

// isZero reports whether it selects every request.
func (f *filter) isZero() bool { return *f == filter{} }

// ranged reports whether it has its own time range.
func (f *filter) ranged() bool { return !f.from.IsZero() || !f.to.IsZero() }

// searched reports whether it looks for an id, a path or a route. Refused requests have none,
// because they are only counted.
func (f *filter) searched() bool { return f.requestID != "" || f.path != "" || f.route != "" }

// driver is the filter whose index a query uses.
type driver int

const (
	byTime driver = iota // no filter with an index
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

// statuses returns the range of statuses, from inclusive and to exclusive; false: all.
func (f *filter) statuses() (from, to int, ok bool) {
	n, err := strconv.Atoi(f.status)
	switch {
	case f.status == errorsOnly:
		return 400, 600, true
	case err != nil:
		return 0, 0, false
	case n == 2:
		return 200, 400, true
	case n < 10:
		return n * 100, n*100 + 100, true
	}
	return n, n + 1, true
}

// meets reports whether the filter selects a status.
func (f *filter) meets(status int) bool {
	from, to, ok := f.statuses()
	return !ok || from <= status && status < to
}

// search sets the field for a search text: the id of a request, a path, an address of the API, or a
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

// isStatus reports whether a text is a status, the first digit of one, or errorsOnly.
func isStatus(text string) bool {
	n, err := strconv.Atoi(text)
	return text == errorsOnly || err == nil && (n == 2 || n == 4 || n == 5 || 200 <= n && n < 600)
}

// statusChoices returns what to choose from: classes of statuses, and the statuses that accepted
// requests get.
func statusChoices() (classes, statuses []web.Pair) {
	return []web.Pair{
			{Name: "2", Value: "Succeeded (2xx, 3xx)"}, {Name: errorsOnly, Value: "Errors"}, {Name: "4", Value: "Client errors (4xx)"}, {Name: "5", Value: "Server errors (5xx)"},
		}, []web.Pair{
			{Name: "200", Value: "200 OK"}, {Name: "204", Value: "204 No content"}, {Name: "304", Value: "304 Not modified"},
			{Name: "400", Value: "400 Wrong request"}, {Name: "403", Value: "403 Missing permission"}, {Name: "404", Value: "404 Not found"},
			{Name: "499", Value: "499 Caller had gone"}, {Name: "500", Value: "500 Internal error"}, {Name: "503", Value: "503 Unavailable"},
		}
}

// position is where a page of the log ended, or identifies one request.
type position struct {
	At    time.Time `json:"a"`
	ID    uuid.UUID `json:"i"`
	Newer bool      `json:"n,omitempty"` // the page has the requests newer than this
}

// newest returns the position before the first page, later than every request.
func newest() position { return position{At: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)} }

// maxScan is how many requests are examined for one page. A filter with an index finds fewer; for
// the others, the page says how far it looked.
const maxScan = 10_000

// requestsQuery selects requests, the newest first.
type requestsQuery struct {
	workspaceID string
	open        []string // the keys whose paths may be searched for; nil: all
	filter
	since time.Time // how far back the log goes
	now   time.Time
	start position // the page has requests older than this, or newer ones
	limit int
}

// found is a page of requests.
type found struct {
	list []row
	more bool      // there are more in the direction of the query
	end  *position // where the search gave up after maxScan requests; nil: it did not
}

// planned makes PostgreSQL plan each statement for its arguments, because these decide which index
// is best. Otherwise it would keep one plan for all arguments after some executions.
const planned = pgx.QueryExecModeCacheDescribe

const (
	columns = `at, record_id, request_id, key_id, key_prefix, method, route, status, duration_us, bytes, row_count, path, address, user_agent, problem`
	// shown lists the columns as scan reads them.
	shown = `at, record_id, request_id, key_id, key_prefix, method, route, status, duration_us, bytes, row_count,
	coalesce(path, ''), coalesce(host(address), ''), coalesce(user_agent, ''), problem`
)

func scan(collectable pgx.CollectableRow) (row, error) {
	var r row
	err := collectable.Scan(&r.At, &r.RecordID, &r.ID, &r.KeyID, &r.Prefix, &r.Method, &r.Route, &r.Status, &r.Micros, &r.Bytes, &r.Rows,
		&r.Path, &r.Address, &r.Agent, &r.Problem)
	r.At = r.At.UTC()
	return r, err
}

// statement returns the SQL that finds a page, with its arguments. narrowed reports whether it
// leaves out some of the requests that it examines.
func (q *requestsQuery) statement() (sql string, args []any, narrowed bool) {
	b := q.builder()
	inner := b.scanned(columns, q.start, maxScan)
	rest := b.rest()
	return fmt.Sprintf("SELECT %s FROM (%s) r WHERE %s%s LIMIT %d", shown, inner, rest, q.start.order(), q.limit+1), b.args, rest != all
}

// requestsFind returns a page of requests.
func requestsFind(ctx context.Context, pool pg.DB, q *requestsQuery) (*found, error) {
	sql, args, narrowed := q.statement()
	list, err := pg.Collect(ctx, pool, scan, sql, slices.Concat([]any{planned}, args)...)
	if err != nil {
		return nil, fmt.Errorf("cannot read requests: %w", err)
	}
	f := &found{list: list}
	if len(f.list) > q.limit {
		f.list, f.more = f.list[:q.limit], true
	} else if narrowed {
		if f.end, err = findEnd(ctx, pool, q); err != nil {
			return nil, err
		}
	}
	if q.start.Newer {
		slices.Reverse(f.list)
	}
	return f, nil
}

// findEnd returns the position of the last of maxScan requests; nil: there are fewer.
func findEnd(ctx context.Context, pool pg.DB, q *requestsQuery) (*position, error) {
	b := q.builder()
	p := position{Newer: q.start.Newer}
	reverse := position{Newer: !q.start.Newer}
	inner := b.scanned("at, record_id", q.start, maxScan)
	var n int
	err := pool.QueryRow(ctx, `SELECT at, record_id, count(*) OVER () FROM (`+inner+`) r`+reverse.order()+` LIMIT 1`, slices.Concat([]any{planned}, b.args)...).Scan(&p.At, &p.ID, &n)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && n < maxScan {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read how far requests were searched: %w", err)
	}
	return &p, nil
}

// order returns the ORDER BY clause that lists requests from the position on.
func (p position) order() string {
	if p.Newer {
		return " ORDER BY at, record_id"
	}
	return " ORDER BY at DESC, record_id DESC"
}

// builder makes the statements of a query.
type builder struct {
	q    *requestsQuery
	args []any
}

func (q *requestsQuery) builder() *builder { return &builder{q: q} }

func (b *builder) arg(value any) string {
	b.args = append(b.args, value)
	return fmt.Sprintf("$%d", len(b.args))
}

// scanned returns the statement that selects the requests to examine, at most limit: those in the
// time range that match the one filter with an index. rest has the other filters.
func (b *builder) scanned(columns string, start position, limit int) string {
	q := b.q
	until := q.now.Add(time.Hour) // clocks of other processes may be ahead
	if !q.to.IsZero() && q.to.Before(until) {
		until = q.to
	}
	since := q.since
	if q.from.After(since) {
		since = q.from
	}
	var sql strings.Builder
	fmt.Fprintf(&sql, "SELECT %s FROM request_log WHERE workspace_id = %s AND at >= %s AND at < %s", columns, b.arg(q.workspaceID), b.arg(since), b.arg(until))
	// The slots are literals, not parameters, so that PostgreSQL can leave out the other
	// partitions.
	switch slots := requestlog.Slots(since, until); {
	case len(slots) == 0: // the time range ended before the oldest stored request
		sql.WriteString(" AND false")
	case len(slots) < requestlog.Partitions:
		fmt.Fprintf(&sql, " AND slot IN (%s)", strings.Trim(strings.Join(strings.Fields(fmt.Sprint(slots)), ","), "[]"))
	}
	operator := "<"
	if start.Newer {
		operator = ">"
	}
	fmt.Fprintf(&sql, " AND (at, record_id) %s (%s, %s)", operator, b.arg(start.At), b.arg(start.ID))
	switch q.driving() {
	case byRequestID:
		sql.WriteString(" AND request_id = " + b.arg(q.requestID))
	case byPath:
		sql.WriteString(" AND path = " + b.arg(q.path))
	case byError:
		sql.WriteString(" AND status >= 400")
	case byKey:
		sql.WriteString(" AND key_id = " + b.arg(q.key))
	case byTime:
	}
	fmt.Fprintf(&sql, "%s LIMIT %d", start.order(), limit)
	return sql.String()
}

// all is what rest returns if there is no further filter.
const all = "true"

// rest returns the condition of the filters that scanned leaves out.
func (b *builder) rest() string {
	q, by := b.q, b.q.driving()
	parts := []string{}
	if q.key != "" && by != byKey {
		parts = append(parts, "key_id = "+b.arg(q.key))
	}
	if q.path != "" && q.open != nil { // a path would be guessed otherwise
		parts = append(parts, "key_id = ANY ("+b.arg(q.open)+")")
	}
	if q.route != "" {
		parts = append(parts, "route = "+b.arg(q.route))
	}
	// The error index selects all errors, so the exact status still has to be compared.
	if from, to, ok := q.statuses(); ok {
		parts = append(parts, "status >= "+b.arg(from)+" AND status < "+b.arg(to))
	}
	if len(parts) == 0 {
		return all
	}
	return strings.Join(parts, " AND ")
}

// findOne returns one request. The error is web.ErrNotFound, or the database's.
func findOne(ctx context.Context, pool pg.DB, workspaceID string, p position) (*row, error) {
	rows, err := pool.Query(ctx, `
		SELECT `+shown+` FROM request_log WHERE workspace_id = $1 AND at = $2 AND record_id = $3 AND slot = ANY ($4)`,
		workspaceID, p.At, p.ID, requestlog.Slots(p.At, p.At))
	if err != nil {
		return nil, fmt.Errorf("cannot read a request: %w", err)
	}
	r, err := pgx.CollectOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, web.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read a request: %w", err)
	}
	return &r, nil
}

// refusal is how many requests were refused for a reason.
type refusal struct {
	Reason string
	Count  int64
}

// Label describes the reason.
func (r refusal) Label() string { return cmp.Or(refusalLabels[r.Reason], r.Reason) }

// refusalLabels has the labels of reasons.
//
//nolint:gochecknoglobals // a constant table
var refusalLabels = map[string]string{
	"rate_limit": "Over the key's limit (429)",
	"revoked":    "With a revoked key (401)",
	"expired":    "With an expired key (401)",
	"rotated":    "With a secret that was rotated (401)",
	"slow_down":  "Too many refused keys from one address (429)",
	"key_in_url": "With the key in the address (400)",
	"method":     "With a method other than GET (405)",
}

// refusedStatuses returns the statuses of refused requests.
func refusedStatuses() []int { return []int{400, 401, 405, 429, 431} }

// statusOf returns the status of requests that are refused for a reason.
func statusOf(reason string) int {
	switch reason {
	case "rate_limit", "slow_down":
		return 429
	case "key_in_url", "not_http":
		return 400
	case "method":
		return 405
	case "headers":
		return 431
	}
	return 401 // a key that is not valid
}

// refusals counts the requests refused since a time by reason, for one key or, with an empty id,
// for all.
func refusals(ctx context.Context, pool pg.DB, workspaceID, keyID string, since time.Time) ([]refusal, error) {
	list, err := pg.Collect(ctx, pool, pgx.RowToStructByPos[refusal], `
		SELECT reason, sum(refused)::bigint FROM request_refused
		 WHERE workspace_id = $1 AND minute > $2 AND ($3 = '' OR key_id = $3) GROUP BY reason ORDER BY 2 DESC, reason`, workspaceID, since, keyID)
	if err != nil {
		return nil, fmt.Errorf("cannot count refused requests: %w", err)
	}
	return list, nil
}

// curl returns a shell command that repeats a request, with a placeholder for the key; empty if the
// path is not known in full or the method changes something. It has no query parameters, because
// the log does not store them.
func curl(apiURL string, r *row) string {
	path := r.Target()
	if path == "" || strings.Contains(path, "{") || strings.HasSuffix(path, "…") {
		return ""
	}
	flags := "-i"
	switch r.Method {
	case http.MethodGet:
	case http.MethodHead:
		flags = "-I"
	case http.MethodOptions:
		flags = "-i -X OPTIONS"
	default:
		return ""
	}
	// The caller chose the path. It is percent-encoded, except for characters that end a shell
	// quotation or that curl reads as a pattern.
	path = strings.NewReplacer("'", "%27", "[", "%5B", "]", "%5D").Replace(path)
	return "curl " + flags + " '" + strings.TrimSuffix(apiURL, "/") + path + "' -H 'Authorization: Bearer <API_KEY>'"
}

// maxCounted is how many rows are counted for a chart, the newest first. It does not limit counts
// by interval.
const maxCounted = 50_000

// lateness is how long it may take until the counts by interval include a request.
const lateness = time.Minute

// span is the time range of a chart, in whole bars.
type span struct {
	rollup.Range
	title string
	wider bool // the bars begin or end outside the filter's time range
}

// spanOf returns the time range of the filter, or else the chosen one. It returns false if no
// stored request can be in the filter's time range.
func spanOf(f *filter, chosen web.Choice, since, now time.Time) (s span, ok bool) {
	if !f.ranged() {
		return span{rollup.Last(now, chosen.Width, chosen.Spans), "Requests " + chosen.Title, false}, true
	}
	from, to := since.UTC(), now.UTC()
	if f.from.After(from) {
		from = f.from.UTC()
	}
	if !f.to.IsZero() && f.to.Before(to) {
		to = f.to.UTC()
	}
	if !from.Before(to) {
		return s, false
	}
	width, by := 6*time.Hour, "by 6 hours"
	for _, finer := range []struct {
		width, most time.Duration
		by          string
	}{{time.Hour, 120 * time.Hour, byHour}, {5 * time.Minute, 10 * time.Hour, "by 5 minutes"}, {time.Minute, 2 * time.Hour, "by minute"}} {
		if to.Sub(from) <= finer.most {
			width, by = finer.width, finer.by
		}
	}
	return spanFrom(f, from, to, width, by), true
}

const byHour = "by hour"

// spanFrom returns the time range of a filter, in bars of the given width.
func spanFrom(f *filter, from, to time.Time, width time.Duration, by string) span {
	s := span{title: "Requests in the chosen time, " + by}
	s.From, s.Width = from.Truncate(width), width
	s.Spans = int((to.Sub(s.From) + width - 1) / width)
	s.wider = s.From.Before(f.from) || !f.to.IsZero() && s.End().After(f.to)
	return s
}

func (s *span) bars() []web.Bar {
	return web.Empty(s.From, s.Width, s.Spans, len(web.RequestSeries()))
}

// drawing is a chart and what it leaves out.
type drawing struct {
	*web.Chart
	Counted bool      // row by row, not from counts by interval
	Since   time.Time // requests before it are missing; zero: none
	Wider   bool      // the bars begin or end outside the filter's time range
}

// draw draws the requests that meet a query.
func (p *Requests) draw(ctx context.Context, q *requestsQuery, s span) (*drawing, error) {
	bars := s.bars()
	d := &drawing{Counted: !q.rolledUp() || !s.Kept(q.now), Wider: s.wider}
	var err error
	if d.Counted {
		d.Since, err = p.addCounted(ctx, q, s, bars)
	} else {
		d.Since, err = p.addRollups(ctx, q, s, bars)
	}
	if err != nil {
		return nil, err
	}
	if d.Counted && !d.Since.IsZero() && q.rolledUp() {
		// With so many requests, hourly counts of all say more than finer counts of some.
		if hours := spanFrom(&q.filter, s.From, s.End(), time.Hour, byHour); hours.Kept(q.now) {
			return p.draw(ctx, q, hours)
		}
	}
	title := s.title
	if q.key != "" || q.status != "" || q.searched() {
		title += ", as filtered"
	}
	list := web.RequestSeries()
	for i := len(list) - 1; i >= 0; i-- {
		if q.draws(i) {
			continue
		}
		list = slices.Delete(list, i, i+1)
		for k := range bars {
			bars[k].Counts = slices.Delete(bars[k].Counts, i, i+1)
		}
	}
	d.Chart = web.New("requests", title, "requests", bars, list).ByDay(s.Width > time.Hour)
	return d, nil
}

// draws reports whether requests of a series can meet the filter.
func (f *filter) draws(series int) bool {
	switch series {
	case web.Refused:
		return !f.searched() && slices.ContainsFunc(refusedStatuses(), f.meets)
	case web.ClientError, web.ServerError:
		first := map[int]string{web.ClientError: rollup.KindClientError, web.ServerError: rollup.KindServerError}[series]
		return f.status == "" || f.status == errorsOnly || strings.HasPrefix(f.status, first)
	}
	return f.status == "" || f.status[0] == '2' || f.status[0] == '3'
}

// rolledUp reports whether counts by interval exist for the filter.
func (f *filter) rolledUp() bool {
	return !f.searched() && (len(f.status) < 2 || f.status == errorsOnly) // they exist for a key and for classes of statuses
}

// addRollups adds the counts by interval to all series; a class of statuses is a series. since is
// when counting began if there are older requests, otherwise zero.
func (p *Requests) addRollups(ctx context.Context, q *requestsQuery, s span, bars []web.Bar) (since time.Time, err error) {
	if q.key != "" {
		spans, err := p.Rollups.Key(ctx, q.workspaceID, s.Range, q.key)
		if err != nil {
			return since, err
		}
		for _, k := range spans {
			counts := bars[k.Span].Counts
			counts[web.Succeeded], counts[web.ClientError], counts[web.ServerError] = k.Requests-k.ClientErrors-k.ServerErrors, k.ClientErrors, k.ServerErrors
			counts[web.Refused] = k.RateLimited + k.Refused
		}
	} else {
		counts, err := p.Rollups.Requests(ctx, q.workspaceID, s.Range)
		if err != nil {
			return since, err
		}
		for _, c := range counts {
			bars[c.Span].Counts[web.OfKind(c.Kind)] += c.N
		}
	}
	return p.uncounted(ctx, q, s)
}

// uncounted returns when counting by interval began; zero if the chart's time range has no older
// requests.
func (p *Requests) uncounted(ctx context.Context, q *requestsQuery, s span) (since time.Time, err error) {
	if since, err = p.Rollups.RequestsSince(ctx, q.workspaceID); err != nil {
		return since, err
	}
	if since.IsZero() {
		since = q.now.Add(-lateness)
	}
	if !since.After(s.From) {
		return time.Time{}, nil
	}
	var missing bool
	err = p.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM request_log WHERE workspace_id = $1 AND at >= $2 AND at < $3)`, q.workspaceID, s.From, since).Scan(&missing)
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot look for requests that are not counted: %w", err)
	}
	if !missing {
		return time.Time{}, nil
	}
	return since, nil
}

// addCounted counts the newest maxCounted requests row by row and adds them to bars. It also adds
// refused requests, which are stored by the minute. since is where it stopped; zero if it counted
// all.
func (p *Requests) addCounted(ctx context.Context, q *requestsQuery, s span, bars []web.Bar) (since time.Time, err error) {
	all := *q
	all.since, all.from, all.to, all.start = s.From, s.From, s.End(), newest()
	b := all.builder()
	inner := b.scanned("at, status, key_id, route", all.start, maxCounted)
	rest := b.rest()
	since, err = addRows(ctx, p, s, bars, fmt.Sprintf(`
		SELECT date_bin(make_interval(secs => %d), at, 'epoch'), (status / 100)::text, count(*) FILTER (WHERE %s), count(*), min(at)
		  FROM (%s) r GROUP BY 1, 2`, int(s.Width.Seconds()), rest, inner), b.args, web.OfKind)
	if err != nil || q.searched() {
		return since, err
	}
	older, err := addRows(ctx, p, s, bars, `
		SELECT date_bin($4, minute, 'epoch'), reason, coalesce(sum(refused) FILTER (WHERE $5 = '' OR key_id = $5), 0)::bigint, count(*), min(minute)
		  FROM (SELECT minute, reason, refused, key_id FROM request_refused
		         WHERE workspace_id = $1 AND minute >= $2 AND minute < $3
		         ORDER BY minute DESC LIMIT $6) r
		 GROUP BY 1, 2`, []any{q.workspaceID, s.From, s.End(), s.Width, q.key, maxCounted}, func(reason string) int {
		if q.meets(statusOf(reason)) {
			return web.Refused
		}
		return none
	})
	if older.After(since) {
		since = older
	}
	return since, err
}

// none is the series of requests that are not drawn.
const none = -1

// addRows adds the counts of a statement. For each bar and kind, the statement returns how many
// rows meet the filter, how many it examined, and the time of the oldest. since is the time of the
// oldest row if there were maxCounted, otherwise zero.
func addRows(ctx context.Context, p *Requests, s span, bars []web.Bar, sql string, args []any, seriesOf func(kind string) int) (since time.Time, err error) {
	var (
		at, first       time.Time
		kind            string
		n, looked, read int64
	)
	err = pg.ForEach(ctx, p.Pool, sql, slices.Concat([]any{planned}, args), []any{&at, &kind, &n, &looked, &first}, func() error {
		if in := seriesOf(kind); in != none {
			web.Add(bars, at, s.Width, in, n)
		}
		if read == 0 || first.Before(since) {
			since = first
		}
		read += looked
		return nil
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot count requests: %w", err)
	}
	if read < maxCounted {
		since = time.Time{}
	}
	return since, nil
}
