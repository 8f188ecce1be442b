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
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// pageSize is how many requests a page lists.
const pageSize = 50

// Pages are the pages of the request log.
type Pages struct {
	Pool      *pgxpool.Pool
	Keys      *access.Store
	Counts    *Counts
	Retention time.Duration // how long the log is kept
	APIURL    string        // for "Copy as curl"
}

// Routes are the addresses of the pages.
func (p *Pages) Routes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Pattern: "/requests", Access: web.SignedIn, Handle: p.listPage},
		{Method: http.MethodGet, Pattern: "/requests/{record}", Access: web.SignedIn, Handle: p.requestPage},
	}
}

// listBody is what the list of requests is made from.
type listBody struct {
	List     []row
	Chart    *chart.Chart
	Range    string // of the chart: hour or day
	Refused  []refusal
	Key      string // the filters
	Status   string
	Statuses []web.Pair // to choose from
	Keys     []web.Pair // id and name
	HourURL  string
	DayURL   string
	web.Pager
}

// Filtered tells whether the list is filtered.
func (b *listBody) Filtered() bool { return b.Key != "" || b.Status != "" }

func (p *Pages) listPage(r *web.Request) error {
	body := &listBody{Range: "hour", Statuses: []web.Pair{{Name: "2", Value: "Succeeded (2xx, 3xx)"}, {Name: "4", Value: "Client errors (4xx)"}, {Name: "5", Value: "Server errors (5xx)"}}}
	ctx, workspaceID := r.Context(), r.Session.WorkspaceID
	var err error
	if body.Keys, err = p.keyNames(ctx, workspaceID); err != nil {
		return err
	}
	drawChart := p.hourChart
	if r.Query("range") == "day" {
		body.Range, drawChart = "day", p.dayChart
	}
	if key := r.Query("key"); nameOf(key, body.Keys) != "" {
		body.Key = key
	}
	if s := r.Query("status"); nameOf(s, body.Statuses) != "" {
		body.Status = s
	}
	q := query{workspaceID: workspaceID, keyID: body.Key, class: body.Status, since: r.Now.Add(-p.Retention), olderThan: newest(), limit: pageSize}
	if cursor := r.Query("cursor"); cursor != "" {
		after, err := web.ParseCursor[position](cursor)
		if err != nil {
			return err
		}
		q.olderThan = *after
	}
	var more bool
	if body.List, more, err = find(ctx, p.Pool, q); err != nil {
		return err
	}
	for i := range body.List {
		body.List[i].KeyName = nameOf(body.List[i].KeyID, body.Keys)
	}
	body.setLinks(q.olderThan.ID == uuid.Nil, more)
	if body.Refused, err = refusals(ctx, p.Pool, workspaceID, r.Now.Add(-24*time.Hour)); err != nil {
		return err
	}
	if body.Chart, err = drawChart(ctx, workspaceID, r.Now); err != nil {
		return err
	}
	return r.Show("requests", web.View{Title: "Request log", Section: "requests", Body: body})
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

// setLinks sets the addresses of the pages around this one, which may be the
// first, and may have more after it.
func (b *listBody) setLinks(first, more bool) {
	address := func(span, cursor string) string {
		return web.Address("/requests", "key", b.Key, "status", b.Status, "range", span, "cursor", cursor)
	}
	b.HourURL, b.DayURL = address("", ""), address("day", "")
	span := ""
	if b.Range == "day" {
		span = "day"
	}
	if !first {
		b.Newest = address(span, "")
	}
	if more {
		b.Older = address(span, b.List[len(b.List)-1].Cursor())
	}
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
