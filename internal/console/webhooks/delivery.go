package webhooks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/console/label"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

// webhookIDLength is that of wh_ and a UUID, at the end of a delivery's id.
const webhookIDLength = 3 + 36

// deliveryBody is what the page of a delivery is made from.
type deliveryBody struct {
	Delivery *delivery.FullDelivery
	Webhook  row
	Attempts []attemptRow // the newest first
	Headers  []web.Pair   // those of the last attempt
	Pretty   string       // the body, indented
	Finished bool
	Waits    bool // for a next attempt that can be made now
}

// attemptRow is an attempt as the page shows it.
type attemptRow struct {
	Number     int
	At         time.Time
	Status     int // 0: no answer
	StatusText string
	Failed     bool
	Failure    string // what went wrong, as far as the status does not tell
	Millis     int64
	Answer     string
}

// findDelivery returns a delivery to a webhook of the session's workspace, of an event that the
// session may see.
func (p *Pages) findDelivery(r *web.Request) (*delivery.FullDelivery, *delivery.Webhook, error) {
	id := r.Path("delivery")
	if len(id) <= webhookIDLength {
		return nil, nil, &delivery.UnknownDeliveryError{DeliveryID: id}
	}
	w, err := p.find(r, id[len(id)-webhookIDLength:])
	if err != nil {
		return nil, nil, err
	}
	d, err := p.Store.Delivery(r.Context(), id)
	if err != nil {
		return nil, nil, err
	}
	if d.NeedsPay && !r.Session.MaySeePay() {
		return nil, nil, &delivery.UnknownDeliveryError{DeliveryID: id}
	}
	return d, w, nil
}

func (p *Pages) deliveryPage(r *web.Request) error {
	d, w, err := p.findDelivery(r)
	if err != nil {
		return err
	}
	body := &deliveryBody{Delivery: d, Webhook: newRow(w), Finished: d.State != policy.Pending, Pretty: label.IndentJSON(d.Body)}
	body.Waits = !body.Finished && w.On() && (w.Paused() || d.NextAttemptAt.After(r.Now))
	for i := len(d.Attempts) - 1; i >= 0; i-- {
		body.Attempts = append(body.Attempts, newAttemptRow(i+1, &d.Attempts[i]))
	}
	body.Headers = p.headersSent(d, w.Standard, body.Attempts)
	return r.Show("delivery", web.View{Title: d.EventType, Section: "webhooks", Body: body})
}

// headersSent are the headers of the last attempt. The signature and its secret
// are not kept, so of that header only the time is known, which is the attempt's.
func (p *Pages) headersSent(d *delivery.FullDelivery, standard bool, newestFirst []attemptRow) []web.Pair {
	brand := p.Settings.Brand
	list := []web.Pair{
		{Name: "Content-Type", Value: "application/json"},
		{Name: "Content-Length", Value: strconv.Itoa(len(d.Body))},
		{Name: "User-Agent", Value: brand.UserAgent()},
		{Name: brand.EventIDHeader(), Value: d.EventID},
		{Name: brand.DeliveryIDHeader(), Value: d.ID},
	}
	list = append(list, web.Pair{Name: brand.LogPositionHeader(), Value: strconv.FormatInt(d.Position, 10)})
	if len(newestFirst) > 0 {
		list = append(list, web.Pair{Name: brand.SignatureHeader(), Value: fmt.Sprintf("t=%d,v1=…", newestFirst[0].At.Unix())})
	}
	if standard && len(newestFirst) > 0 {
		list = append(list, web.Pair{Name: attempt.StandardIDHeader, Value: d.EventID},
			web.Pair{Name: attempt.StandardTimestampHeader, Value: strconv.FormatInt(newestFirst[0].At.Unix(), 10)},
			web.Pair{Name: attempt.StandardSignatureHeader, Value: "v1,…"})
	}
	return list
}

func newAttemptRow(number int, v *delivery.AttemptView) attemptRow {
	row := attemptRow{Number: number, Millis: v.DurationMS, Failed: v.Error != nil, Failure: web.Failure(*v)}
	var text string
	if json.Unmarshal(v.At, &text) == nil {
		row.At, _ = domain.ParseTime(text)
	}
	if v.Status != nil {
		row.Status = *v.Status
		row.StatusText = strings.TrimSpace(strconv.Itoa(row.Status) + " " + http.StatusText(row.Status))
	}
	if v.Answer != nil {
		row.Answer = *v.Answer
	}
	return row
}

func (p *Pages) resend(r *web.Request) error {
	d, _, err := p.findDelivery(r)
	if err != nil {
		return err
	}
	if _, err := p.Store.Resend(r.Context(), d.ID); err != nil {
		return err
	}
	return r.Redirect("/deliveries/" + d.ID + "?did=sent-again")
}

func (p *Pages) retry(r *web.Request) error {
	d, _, err := p.findDelivery(r)
	if err != nil {
		return err
	}
	if _, err := p.Store.RetryNow(r.Context(), d.ID); err != nil {
		return err
	}
	return r.Redirect("/deliveries/" + url.PathEscape(d.ID) + "?did=retried")
}

// resendSeveral sends the chosen deliveries of a page again, and shows the page once more.
func (p *Pages) resendSeveral(r *web.Request) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	chosen := slices.Compact(slices.Sorted(slices.Values(r.PostForm["delivery"])))
	sent, err := p.Store.ResendSeveral(r.Context(), w.ID, chosen)
	if err != nil {
		return err
	}
	did := "several-sent-again"
	switch {
	case sent == 0:
		did = "none-sent-again"
	case sent < len(chosen):
		did = "some-sent-again"
	}
	back, err := url.Parse(r.Field("back"))
	if err != nil {
		return web.ErrForm
	}
	values := back.Query()
	values.Set("did", did)
	return r.Redirect("/webhooks/" + w.ID + "?" + values.Encode())
}
