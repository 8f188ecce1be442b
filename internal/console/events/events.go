// Package events has the pages of events.
package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/projections/anomaly"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// pageSize is how many events a page lists.
const pageSize = 50

// Pages are the pages of events.
type Pages struct {
	Pool      *pgxpool.Pool
	Feed      *eventlog.Feed
	Webhooks  *delivery.Store
	Reader    *readapi.Reader  // what readers get
	Replayer  *replay.Replayer // what entries changed
	Anomalies *anomaly.Store
	Retention time.Duration // how long events show

	BesideTimeout time.Duration // how long the page of an event waits for the event's object
}

// Routes are the addresses of the pages.
func (p *Pages) Routes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Pattern: "/events", Access: web.SignedIn, Heavy: true, Handle: p.listPage},
		{Method: http.MethodGet, Pattern: "/events/{event}", Access: web.SignedIn, Heavy: true, Handle: p.eventPage},
	}
}

// event is an event as the pages show it.
type event struct {
	ID        string    `json:"id"`
	Type      string    `json:"type"`
	CreatedAt time.Time `json:"created_at"`
	Data      eventData `json:"data"`
}

type eventData struct {
	ObjectType    string `json:"object_type"`
	ObjectID      string `json:"object_id"`
	InvoiceID     string `json:"invoice_id"`
	InvoiceNumber string `json:"invoice_number"`
	ClientID      string `json:"client_id"`
	ContractorID  string `json:"contractor_id"`
	Period        string `json:"period"`
}

func parse(text string) (*event, error) {
	e := &event{}
	if err := json.Unmarshal([]byte(text), e); err != nil {
		return nil, fmt.Errorf("cannot read an event: %w", err)
	}
	return e, nil
}

// References are the ids that the event has besides its object's.
func (e *event) References() []web.Pair {
	var list []web.Pair
	for _, r := range []web.Pair{
		{Name: "invoice", Value: e.Data.InvoiceID}, {Name: "number", Value: e.Data.InvoiceNumber}, {Name: "client", Value: e.Data.ClientID},
		{Name: "contractor", Value: e.Data.ContractorID}, {Name: "period", Value: e.Data.Period},
	} {
		if r.Value != "" && r.Value != e.Data.ObjectID {
			list = append(list, r)
		}
	}
	return list
}

// listBody is what the list of events is made from.
type listBody struct {
	List  []event
	Type  string // the filters
	Until string // a day: events up to its end, UTC
	About string // an id or a number that was searched for
	Types []string
	First bool   // the first page: it renews itself
	Here  string // this page's address with its filters
	Days  int    // how long events show

	LookedAtTo time.Time // older events were not looked at; zero: all were
	web.Pager
}

// Filtered tells whether the list is filtered.
func (b *listBody) Filtered() bool { return b.Type != "" || b.Until != "" || b.About != "" }

func (p *Pages) listPage(r *web.Request) error {
	body := &listBody{Types: domain.PublicTypes(), First: r.Query("before") == "", Days: int(p.Retention / (24 * time.Hour))}
	if body.About = r.Query("about"); domain.IsID(body.About) {
		if _, err := p.find(r, body.About); err == nil {
			return r.Redirect("/events/" + url.PathEscape(body.About))
		} else if !errors.Is(err, web.ErrNotFound) {
			return err
		}
	}
	if t := r.Query("type"); slices.Contains(body.Types, t) {
		body.Type = t
	}
	q := query{workspaceID: r.Session.WorkspaceID, typ: body.Type, oldest: r.Now.Add(-p.Retention), pay: r.Session.MaySeePay(), limit: pageSize}
	if day, err := time.Parse(time.DateOnly, r.Query("until")); err == nil {
		body.Until, q.before = r.Query("until"), day.AddDate(0, 0, 1)
	}
	if before, err := strconv.ParseInt(r.Query("before"), 10, 64); err == nil {
		q.beforePosition = before
	}
	if body.About != "" {
		return p.searchPage(r, body, q)
	}
	var (
		list []string
		next int64
	)
	err := p.Reader.Beside(r.Context(), q.workspaceID, q.beforePosition-1, func(ctx context.Context, pool *pgxpool.Pool) (err error) {
		list, next, err = find(ctx, pool, q)
		return err
	})
	if err != nil {
		return err
	}
	for _, text := range list {
		e, err := parse(text)
		if err != nil {
			return err
		}
		body.List = append(body.List, *e)
	}
	body.Here = web.Address("/events", "type", body.Type, "until", body.Until)
	if !body.First {
		body.Newest = body.Here
	}
	if next > 0 {
		body.Older = web.Address("/events", "type", body.Type, "until", body.Until, "before", strconv.FormatInt(next, 10))
	}
	return r.Show("events", web.View{Title: "Events", Section: "events", Body: body})
}

// searchPage lists the events that name what was searched for. A page has those of one window
// of the log.
func (p *Pages) searchPage(r *web.Request, b *listBody, q query) error {
	var found *eventlog.Found
	err := p.Reader.Beside(r.Context(), q.workspaceID, q.beforePosition, func(ctx context.Context, pool *pgxpool.Pool) (err error) {
		found, err = eventlog.NewFeed(pool).Search(ctx, eventlog.Search{
			WorkspaceID: q.workspaceID, Text: b.About, Type: q.typ, Oldest: q.oldest, Before: q.before, From: q.beforePosition, NoPay: !q.pay,
		})
		return err
	})
	if err != nil {
		return err
	}
	for _, hit := range found.Hits {
		e, err := parse(hit.JSON)
		if err != nil {
			return err
		}
		b.List = append(b.List, *e)
	}
	address := func(before string) string {
		return web.Address("/events", "type", b.Type, "until", b.Until, "about", b.About, "before", before)
	}
	b.Here, b.LookedAtTo = address(""), found.Until
	if !b.First {
		b.Newest = b.Here
	}
	if found.Next > 0 {
		b.Older = address(strconv.FormatInt(found.Next, 10))
	}
	return r.Show("events", web.View{Title: "Events", Section: "events", Body: b})
}
