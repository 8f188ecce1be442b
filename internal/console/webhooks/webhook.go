package webhooks

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/console/chart"
	"github.com/ledgerfeed/ledgerfeed/internal/console/label"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

// deliveriesPageSize is how many deliveries a page lists.
const deliveriesPageSize = 25

// webhookBody is what the page of a webhook is made from.
type webhookBody struct {
	Webhook    row
	Failing    *delivery.Failing // nil: it is off or not failing
	Chart      *chart.Chart
	Outcomes   []outcomeRow // of the failed attempts
	Deliveries []delivery.Delivery
	State      string // the filters
	Type       string
	From, To   web.Moment
	About      string    // an id or a number that was searched for
	LookedAtTo time.Time // older deliveries were not looked at; zero: all were
	States     []string  // to choose from
	Types      []string
	Live       bool   // the page renews itself
	Here       string // the first page's address with its filters
	This       string // this page's address
	web.Pager
}

// outcomeRow is how many attempts had an outcome.
type outcomeRow struct {
	Outcome attempt.Outcome
	Count   int64
}

// Filtered tells whether the deliveries are filtered.
func (b *webhookBody) Filtered() bool {
	return b.State != "" || b.Type != "" || b.About != "" || !b.From.At.IsZero() || !b.To.At.IsZero()
}

func (p *Pages) webhookPage(r *web.Request) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	body := &webhookBody{Webhook: newRow(w), Types: domain.PublicTypes(), States: []string{
		string(policy.Pending), string(policy.Succeeded), string(policy.Failed), string(policy.Cancelled),
	}}
	if err := body.listDeliveries(r, p.Store); err != nil {
		return err
	}
	for _, o := range attempt.Outcomes() {
		if n := w.Last24Hours[o]; n > 0 && o != attempt.OutcomeSuccess {
			body.Outcomes = append(body.Outcomes, outcomeRow{o, n})
		}
	}
	if !r.Live() {
		if body.Webhook.Backlog, err = w.Backlog(r.Context(), p.Store); err != nil {
			return err
		}
		if body.Failing, err = w.Failing(r.Context(), p.Store); err != nil {
			return err
		}
		if body.Chart, err = p.attemptsChart(r.Context(), r.Session.WorkspaceID, w.ID, r.Now); err != nil {
			return err
		}
	}
	return r.Show("webhook", web.View{Title: body.Webhook.Title(), Section: "webhooks", Body: body})
}

// Choosable tells whether a delivery can be chosen to be sent again with others.
func (b *webhookBody) Choosable(d delivery.Delivery) bool {
	return d.State == policy.Failed || d.State == policy.Cancelled
}

// AnyChoosable tells whether the page has such a delivery.
func (b *webhookBody) AnyChoosable() bool {
	for i := range b.Deliveries {
		if b.Choosable(b.Deliveries[i]) {
			return true
		}
	}
	return false
}

// maxCounted is how many deliveries are counted for a list; of more it says "10,000+".
const maxCounted = 10_000

// listDeliveries reads the filters and the page of deliveries that the address asks for.
func (b *webhookBody) listDeliveries(r *web.Request, store *delivery.Store) error {
	b.From, b.To, b.About = r.QueryMoment("From", "from"), r.QueryMoment("To", "to"), r.Query("about")
	if s := r.Query("state"); slices.Contains(b.States, s) {
		b.State = s
	}
	if t := r.Query("type"); slices.Contains(b.Types, t) {
		b.Type = t
	}
	q := delivery.Query{
		State: policy.State(b.State), EventType: b.Type, NoPay: !r.Session.MaySeePay(), Since: b.From.At, Before: b.To.At, About: b.About, Limit: deliveriesPageSize, Cursor: r.Query("cursor"),
	}
	page, err := store.Deliveries(r.Context(), b.Webhook.ID, q)
	if err != nil {
		return err
	}
	address := func(cursor string) string {
		return web.Address("/webhooks/"+b.Webhook.ID, "state", b.State, "type", b.Type, "from", b.From.UTC(), "to", b.To.UTC(), "about", b.About, "cursor", cursor)
	}
	b.Deliveries, b.LookedAtTo, b.Here = page.Deliveries, page.LookedAtTo.Time, address("")
	b.This = address(q.Cursor)
	if page.Previous != "" {
		b.Newest, b.Newer = b.Here, address(page.Previous)
	}
	if page.Next != "" {
		b.Older = address(page.Next)
	}
	b.Live = page.Previous == "" && b.About == ""
	b.Showing, err = showing(r, store, b.Webhook.ID, q, page)
	return err
}

// showing tells which of how many deliveries a page has. What a search finds in all is not
// known before its end.
func showing(r *web.Request, store *delivery.Store, webhookID string, q delivery.Query, page *delivery.Page) (string, error) {
	n := len(page.Deliveries)
	if n == 0 {
		return "", nil
	}
	which := label.Count(int64(page.Newer+1)) + "–" + label.Count(int64(page.Newer+n))
	switch {
	case q.About != "" && page.Next == "" && page.Previous == "":
		return label.Plural(n, "delivery", "deliveries"), nil
	case q.About != "":
		return which, nil
	}
	counted, all, err := store.CountDeliveries(r.Context(), webhookID, q, maxCounted)
	if err != nil {
		return "", err
	}
	counted = max(counted, page.Newer+n)
	if !all {
		return which + " of " + label.Count(int64(counted)) + "+", nil
	}
	return which + " of " + label.Count(int64(counted)), nil
}

// testPoll is how often "Send test" looks for the receiver's answer.
const testPoll = 50 * time.Millisecond

// test sends a test and waits for the answer, which the page of the delivery then
// shows.
func (p *Pages) test(r *web.Request) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	eventID, err := p.Store.Test(r.Context(), w.ID)
	if err != nil {
		return err
	}
	r.Leave() // the receiver is waited for without a connection
	id := eventID + "_" + w.ID
	ctx, cancel := context.WithTimeout(r.Context(), p.TestTimeout)
	defer cancel()
	poll := time.NewTicker(testPoll)
	defer poll.Stop()
	for {
		_, err := p.Store.Delivery(ctx, id)
		var unknown *delivery.UnknownDeliveryError
		switch {
		case err == nil:
			return r.Redirect("/deliveries/" + url.PathEscape(id))
		case ctx.Err() == nil && !errors.As(err, &unknown):
			return err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return r.Show("webhook-waiting", web.View{Title: "Test sent", Section: "webhooks", Body: struct {
				Webhook  row
				Delivery string
			}{newRow(w), id}})
		}
	}
}

func (p *Pages) turnOn(r *web.Request) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	if _, err := p.Store.TurnOn(r.Context(), w.ID); err != nil {
		return err
	}
	if w.TurnedOffAt.IsZero() {
		return r.Redirect(web.Address("/webhooks/"+w.ID, "did", "webhook-on"))
	}
	// It has missed events since it began to fail, which the next page suggests.
	since := cmp.Or(w.TurnedOffSince.Time, w.TurnedOffAt.Time)
	return r.Redirect(web.Address("/webhooks/"+w.ID+"/missed", "did", "webhook-on", "since", since.Format(time.RFC3339)))
}
