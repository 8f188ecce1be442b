package webhooks

import (
	"errors"
	"net/http"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/internal/console/label"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

// missedBody is what the page "Send missed" is made from.
type missedBody struct {
	Webhook row
	Since   time.Time
	Count   int64
	Counted bool
	Fault   string
}

// readSince reads the moment that the page or its form names; by default a day
// ago.
func (p *Pages) readSince(b *missedBody, text string, now time.Time) {
	b.Since = now.Add(-24 * time.Hour).Truncate(time.Minute)
	if text == "" {
		return
	}
	t, ok := web.ParseMoment(text)
	if !ok {
		b.Fault = "Enter a date and a time."
		return
	}
	if oldest := now.Add(-p.Settings.Retention); t.Before(oldest) {
		t = oldest.Add(time.Minute).Truncate(time.Second).UTC()
	}
	b.Since = t
}

// missedPage shows how many events would be sent.
func (p *Pages) missedPage(r *web.Request) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	body := missedBody{Webhook: newRow(w)}
	p.readSince(&body, r.Query("since"), r.Now)
	return p.showMissed(r, http.StatusOK, &body)
}

func (p *Pages) showMissed(r *web.Request, status int, body *missedBody) error {
	if body.Fault == "" {
		m, err := p.Store.CountMissed(r.Context(), body.Webhook.ID, body.Since)
		var since *delivery.SinceError
		switch {
		case errors.As(err, &since):
			body.Fault, status = label.Sentence(since.Error()), http.StatusUnprocessableEntity
		case err != nil:
			return err
		default:
			body.Count, body.Counted = m.Count, true
		}
	}
	return r.ShowStatus(status, "webhook-missed", web.View{Title: "Send missed events", Section: "webhooks", Body: body})
}

func (p *Pages) sendMissed(r *web.Request) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	body := missedBody{Webhook: newRow(w)}
	if p.readSince(&body, r.Field("since"), r.Now); body.Fault != "" {
		return p.showMissed(r, http.StatusUnprocessableEntity, &body)
	}
	m, err := p.Store.SendMissed(r.Context(), w.ID, body.Since)
	var since *delivery.SinceError
	if errors.As(err, &since) {
		body.Fault = label.Sentence(since.Error())
		return p.showMissed(r, http.StatusUnprocessableEntity, &body)
	}
	if err != nil {
		return err
	}
	if m.Count == 0 {
		return r.Redirect("/webhooks/" + w.ID + "?did=nothing-missed")
	}
	return r.Redirect("/webhooks/" + w.ID + "?did=missed")
}
