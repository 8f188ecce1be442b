// Package requests has the pages of the request log, and counts requests for
// other pages.
package requests

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/console/chart"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// pageSize is how many requests a page lists.
const pageSize = 50

// usual is the time that the chart shows unless another one is chosen.
const usual = "hour"

// Pages are the pages of the request log.
type Pages struct {
	Pool      *pgxpool.Pool
	Keys      *access.Store
	Rollups   *rollup.Reader
	Retention time.Duration // how long the log is kept
	APIURL    string        // for "Copy as curl"
}

// Routes are the addresses of the pages.
func (p *Pages) Routes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Pattern: "/requests", Access: web.SignedIn, Heavy: true, Handle: p.listPage},
		{Method: http.MethodGet, Pattern: "/requests/{record}", Access: web.SignedIn, Handle: p.requestPage},
	}
}

// listBody is what the list of requests is made from.
type listBody struct {
	List     []row
	Chart    *drawing     // nil: the filter's time is too long ago
	Bound    int64        // of what a chart counts row by row
	Switch   []chart.Link // to the other times that the chart can show
	Chosen   chart.Choice
	Refused  []refusal
	Filter   filter
	Find     string     // what was searched for, as it was typed
	Fault    string     // what is wrong with the filter; empty: nothing
	Classes  []web.Pair // to choose from, and statuses
	Statuses []web.Pair
	Keys     []web.Pair // id and name
	End      *position  // where the search gave up; nil: it did not
	Scanned  int64      // after how many requests
	web.Pager
}

// Filtered tells whether the list is filtered.
func (b *listBody) Filtered() bool { return !b.Filter.isZero() }

// Key and Status are filters.
func (b *listBody) Key() string    { return b.Filter.key }
func (b *listBody) Status() string { return b.Filter.status }

// From and To are the fields for the time.
func (b *listBody) From() web.Moment {
	return web.Moment{Name: "From", Field: "from", At: b.Filter.from}
}
func (b *listBody) To() web.Moment { return web.Moment{Name: "To", Field: "to", At: b.Filter.to} }

// Ranged tells whether the filter has a time of its own.
func (b *listBody) Ranged() bool { return b.Filter.ranged() }

// address is that of a page with the same filters and chart.
func (b *listBody) address(cursor string) string {
	return b.rangeAddress(b.Chosen.Name, cursor)
}

func (b *listBody) rangeAddress(span, cursor string) string {
	if span == usual {
		span = ""
	}
	f := &b.Filter
	return web.Address("/requests", "find", b.Find, "key", f.key, "status", f.status, "from", b.From().UTC(), "to", b.To().UTC(), "range", span, "cursor", cursor)
}

func (p *Pages) listPage(r *web.Request) error {
	body := &listBody{Chosen: chart.Choose(r.Query("range"), usual), Scanned: maxScan, Bound: maxCounted}
	ctx := r.Context()
	var err error
	if body.Keys, err = p.keyNames(ctx, r.Session.WorkspaceID); err != nil {
		return err
	}
	body.read(r)
	q := &query{workspaceID: r.Session.WorkspaceID, filter: body.Filter, since: r.Now.Add(-p.Retention), now: r.Now, start: newest(), limit: pageSize}
	if cursor := r.Query("cursor"); cursor != "" {
		start, err := web.ParseCursor[position](cursor)
		if err != nil {
			return err
		}
		q.start = *start
	}
	body.Switch = body.Chosen.Switch(func(name string) string { return body.rangeAddress(name, "") })
	if body.Fault == "" {
		if err := p.fill(ctx, body, q); err != nil {
			return err
		}
	}
	return r.Show("requests", web.View{Title: "Request log", Section: "requests", Body: body})
}

// read reads the filters from the address.
func (b *listBody) read(r *web.Request) {
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

// fill looks for the requests, and draws the chart.
func (p *Pages) fill(ctx context.Context, body *listBody, q *query) error {
	f, err := find(ctx, p.Pool, q)
	if err != nil {
		return err
	}
	if q.start.Newer && !f.more && f.end == nil { // there is nothing newer than this page, so that it is the first one
		q.start = newest()
		if f, err = find(ctx, p.Pool, q); err != nil {
			return err
		}
	}
	body.List, body.End = f.list, f.end
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

// setLinks sets the addresses of the pages around this one.
func (b *listBody) setLinks(q *query, f *found) {
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

// keyNames returns the ids and names of the workspace's keys.
func (p *Pages) keyNames(ctx context.Context, workspaceID string) (list []web.Pair, err error) {
	records, err := p.Keys.List(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	for _, k := range records {
		list = append(list, web.Pair{Name: k.ID, Value: k.Name})
	}
	return list, nil
}

// nameOf finds what a list has for an id; empty: nothing.
func nameOf(id string, list []web.Pair) string {
	if i := slices.IndexFunc(list, func(p web.Pair) bool { return p.Name == id }); i >= 0 {
		return list[i].Value
	}
	return ""
}

// requestBody is what the page of one request is made from.
type requestBody struct {
	*row
	Curl string // a line that makes it again; empty: the path is not known
}

func (p *Pages) requestPage(r *web.Request) error {
	at, err := web.ParseCursor[position](r.Path("record"))
	if err != nil {
		return web.ErrNotFound
	}
	found, err := findOne(r.Context(), p.Pool, r.Session.WorkspaceID, *at)
	if err != nil {
		return err
	}
	keys, err := p.keyNames(r.Context(), r.Session.WorkspaceID)
	if err != nil {
		return err
	}
	found.KeyName = nameOf(found.KeyID, keys)
	body := &requestBody{row: found, Curl: curl(p.APIURL, found)}
	return r.Show("request", web.View{Title: "Request", Section: "requests", Body: body})
}
