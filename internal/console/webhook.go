package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
)

// deliveriesShown is how many deliveries a page lists.
const deliveriesShown = 25

// webhookBody is what the page of a webhook is made from.
type webhookBody struct {
	Webhook    webhookRow
	Chart      *chart
	Outcomes   []outcomeRow // of the failed ones
	Deliveries []delivery.Delivery
	State      string // the filters
	Type       string
	States     []string // to choose from
	Types      []string
	First      bool   // the newest deliveries: they renew themselves
	Here       string // this page's address with its filters
	pager
}

// outcomeRow is how often attempts came to an outcome.
type outcomeRow struct {
	Outcome delivery.Outcome
	Count   int64
}

// Filtered tells that only some deliveries are asked for.
func (b *webhookBody) Filtered() bool { return b.State != "" || b.Type != "" }

func (c *Console) webhookPage(a *ask) error {
	w, err := c.webhook(a)
	if err != nil {
		return err
	}
	body := &webhookBody{Webhook: rowOf(w), Types: domain.PublicTypes(), First: a.query("cursor") == "", States: []string{
		string(delivery.Pending), string(delivery.Succeeded), string(delivery.Failed), string(delivery.Cancelled),
	}}
	if s := a.query("state"); slices.Contains(body.States, s) {
		body.State = s
	}
	if t := a.query("type"); slices.Contains(body.Types, t) {
		body.Type = t
	}
	page, err := c.cfg.Webhooks.Deliveries(a.ctx, w.ID, delivery.Query{
		State: delivery.State(body.State), EventType: body.Type, Limit: deliveriesShown, Cursor: a.query("cursor"),
	})
	if err != nil {
		return err
	}
	body.Deliveries = page.Deliveries
	filters := url.Values{}
	set(filters, "state", body.State)
	set(filters, "type", body.Type)
	body.Here = addressOf("/webhooks/"+w.ID, filters)
	if !body.First {
		body.Newest = body.Here
	}
	if page.Next != "" {
		filters.Set("cursor", page.Next)
		body.Older = addressOf("/webhooks/"+w.ID, filters)
	}
	for _, o := range delivery.Outcomes() {
		if n := w.Last24Hours[o]; n > 0 && o != delivery.OutcomeSuccess {
			body.Outcomes = append(body.Outcomes, outcomeRow{o, n})
		}
	}
	if !a.live() {
		if body.Chart, err = c.attemptsChart(a, w.ID); err != nil {
			return err
		}
	}
	return c.show(a, "webhook", view{Title: hostOf(w.URL), Section: "webhooks", Body: body})
}

// set adds a parameter that has a value.
func set(v url.Values, name, value string) {
	if value != "" {
		v.Set(name, value)
	}
}

// addressOf puts parameters behind a path.
func addressOf(path string, v url.Values) string {
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}

func (c *Console) webhookTurnOn(a *ask) error {
	w, err := c.webhook(a)
	if err != nil {
		return err
	}
	if _, err := c.cfg.Webhooks.TurnOn(a.ctx, w.ID); err != nil {
		return err
	}
	c.record(a, audit.Change{Action: audit.WebhookTurnOn, ObjectID: w.ID, ObjectName: w.URL})
	to := url.Values{"did": {"webhook-on"}}
	if !w.TurnedOffAt.IsZero() {
		// What it missed began when it began to fail; offered, not decided.
		to.Set("since", firstOf(w.FailingSince.Time, w.TurnedOffAt.Time).Format(time.RFC3339))
		return a.see(addressOf("/webhooks/"+w.ID+"/missed", to))
	}
	return a.see(addressOf("/webhooks/"+w.ID, to))
}

// firstOf is the first of two moments that is set.
func firstOf(x, y time.Time) time.Time {
	if x.IsZero() {
		return y
	}
	return x
}

// missedBody is what the page "Send missed" is made from.
type missedBody struct {
	Webhook webhookRow
	Since   time.Time
	Count   int64
	Counted bool
	Fault   string
}

// missedSince reads the moment that the form names; by default a day ago.
func (c *Console) missedSince(a *ask, text string) (time.Time, string) {
	if text == "" {
		return a.now.Add(-24 * time.Hour).Truncate(time.Minute), ""
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			if oldest := a.now.Add(-c.cfg.Settings.Retention); t.Before(oldest) {
				t = oldest.Add(time.Minute).Truncate(time.Second)
			}
			return t.UTC(), ""
		}
	}
	return a.now.Add(-24 * time.Hour).Truncate(time.Minute), "Write a date and a time."
}

// missedPage shows how many events would be sent before anybody presses.
func (c *Console) missedPage(a *ask) error {
	w, err := c.webhook(a)
	if err != nil {
		return err
	}
	body := missedBody{Webhook: rowOf(w)}
	body.Since, body.Fault = c.missedSince(a, a.query("since"))
	return c.showMissed(a, http.StatusOK, &body)
}

func (c *Console) showMissed(a *ask, status int, body *missedBody) error {
	if body.Fault == "" {
		m, err := c.cfg.Webhooks.CountMissed(a.ctx, body.Webhook.ID, body.Since)
		var since *delivery.SinceError
		switch {
		case errors.As(err, &since):
			body.Fault, status = sentence(since.Error()), http.StatusUnprocessableEntity
		case err != nil:
			return err
		default:
			body.Count, body.Counted = m.Count, true
		}
	}
	return c.showStatus(a, status, "webhook-missed", view{Title: "Send missed events", Section: "webhooks", Body: body})
}

func (c *Console) missedSend(a *ask) error {
	w, err := c.webhook(a)
	if err != nil {
		return err
	}
	body := missedBody{Webhook: rowOf(w)}
	if body.Since, body.Fault = c.missedSince(a, a.form("since")); body.Fault != "" {
		return c.showMissed(a, http.StatusUnprocessableEntity, &body)
	}
	m, err := c.cfg.Webhooks.SendMissed(a.ctx, w.ID, body.Since)
	var since *delivery.SinceError
	if errors.As(err, &since) {
		body.Fault = sentence(since.Error())
		return c.showMissed(a, http.StatusUnprocessableEntity, &body)
	}
	if err != nil {
		return err
	}
	if m.Count == 0 {
		return a.see("/webhooks/" + w.ID + "?did=nothing-missed")
	}
	c.record(a, audit.Change{Action: audit.WebhookSendMissed, ObjectID: w.ID, ObjectName: w.URL,
		Detail: plural(m.Count, "event", "events") + " since " + body.Since.Format(time.RFC3339)})
	return a.see("/webhooks/" + w.ID + "?did=missed")
}

// testPace is how often "Send test" looks whether the receiver has answered.
const testPace = 50 * time.Millisecond

// webhookTest sends a test and waits for the answer, which the page of the
// delivery then shows.
func (c *Console) webhookTest(a *ask) error {
	w, err := c.webhook(a)
	if err != nil {
		return err
	}
	eventID, err := c.cfg.Webhooks.Test(a.ctx, w.ID)
	if err != nil {
		return err
	}
	c.record(a, audit.Change{Action: audit.WebhookTest, ObjectID: w.ID, ObjectName: w.URL, Detail: "event " + eventID})
	id := eventID + "_" + w.ID
	ctx, cancel := context.WithTimeout(a.ctx, c.cfg.TestPatience)
	defer cancel()
	look := time.NewTicker(testPace)
	defer look.Stop()
	for {
		_, err := c.cfg.Webhooks.Delivery(ctx, id)
		var unknown *delivery.UnknownDeliveryError
		switch {
		case err == nil:
			return a.see("/deliveries/" + url.PathEscape(id))
		case ctx.Err() == nil && !errors.As(err, &unknown):
			return err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return c.show(a, "webhook-waiting", view{Title: "Test sent", Section: "webhooks", Body: struct {
				Webhook  webhookRow
				Delivery string
			}{rowOf(w), id}})
		}
	}
}
