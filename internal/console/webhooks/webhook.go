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
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

// deliveriesPageSize is how many deliveries a page lists.
const deliveriesPageSize = 25

// webhookBody is what the page of a webhook is made from.
type webhookBody struct {
	Webhook    row
	Chart      *chart.Chart
	Outcomes   []outcomeRow // of the failed attempts
	Deliveries []delivery.Delivery
	State      string // the filters
	Type       string
	States     []string // to choose from
	Types      []string
	First      bool   // the newest deliveries: they renew themselves
	Here       string // this page's address with its filters
	web.Pager
}

// outcomeRow is how many attempts had an outcome.
type outcomeRow struct {
	Outcome attempt.Outcome
	Count   int64
}

// Filtered tells whether the deliveries are filtered.
func (b *webhookBody) Filtered() bool { return b.State != "" || b.Type != "" }

func (p *Pages) webhookPage(r *web.Request) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	body := &webhookBody{Webhook: newRow(w), Types: domain.PublicTypes(), First: r.Query("cursor") == "", States: []string{
		string(policy.Pending), string(policy.Succeeded), string(policy.Failed), string(policy.Cancelled),
	}}
	if s := r.Query("state"); slices.Contains(body.States, s) {
		body.State = s
	}
	if t := r.Query("type"); slices.Contains(body.Types, t) {
		body.Type = t
	}
	page, err := p.Store.Deliveries(r.Context(), w.ID, delivery.Query{
		State: policy.State(body.State), EventType: body.Type, Limit: deliveriesPageSize, Cursor: r.Query("cursor"),
	})
	if err != nil {
		return err
	}
	body.Deliveries = page.Deliveries
	body.Here = web.Address("/webhooks/"+w.ID, "state", body.State, "type", body.Type)
	if !body.First {
		body.Newest = body.Here
	}
	if page.Next != "" {
		body.Older = web.Address("/webhooks/"+w.ID, "state", body.State, "type", body.Type, "cursor", page.Next)
	}
	for _, o := range attempt.Outcomes() {
		if n := w.Last24Hours[o]; n > 0 && o != attempt.OutcomeSuccess {
			body.Outcomes = append(body.Outcomes, outcomeRow{o, n})
		}
	}
	if !r.Live() {
		if body.Chart, err = p.attemptsChart(r.Context(), r.Session.WorkspaceID, w.ID, r.Now); err != nil {
			return err
		}
	}
	return r.Show("webhook", web.View{Title: body.Webhook.Title(), Section: "webhooks", Body: body})
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
	since := cmp.Or(w.FailingSince.Time, w.TurnedOffAt.Time)
	return r.Redirect(web.Address("/webhooks/"+w.ID+"/missed", "did", "webhook-on", "since", since.Format(time.RFC3339)))
}
