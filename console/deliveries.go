package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/domain"
)

// webhookIDLength is that of wh_ and a UUID, at the end of a delivery's id.
const webhookIDLength = 3 + 36

// deliveryBody is what the page of a delivery is made from.
type deliveryBody struct {
	Delivery *delivery.FullDelivery
	Webhook  webhookRow
	Attempts []attemptRow // the newest first
	Headers  []headerRow
	Pretty   string // the body, indented
	Finished bool
}

// attemptRow is an attempt as the page shows it.
type attemptRow struct {
	Number     int
	At         time.Time
	Status     int // 0: no answer
	StatusText string
	Error      string // empty: it succeeded
	Millis     int64
	Answer     string
}

// headerRow is a header as it was sent.
type headerRow struct{ Name, Value string }

// delivery gives a delivery, if it is to a webhook of this workspace.
func (c *Console) delivery(a *ask) (*delivery.FullDelivery, *delivery.Webhook, error) {
	id := a.path("delivery")
	unknown := &delivery.UnknownDeliveryError{DeliveryID: id}
	if len(id) <= webhookIDLength {
		return nil, nil, unknown
	}
	w, err := c.webhookOf(a, id[len(id)-webhookIDLength:])
	if err != nil {
		return nil, nil, err
	}
	d, err := c.cfg.Webhooks.Delivery(a.ctx, id)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // says it all
	}
	return d, w, nil
}

func (c *Console) deliveryPage(a *ask) error {
	d, w, err := c.delivery(a)
	if err != nil {
		return err
	}
	body := &deliveryBody{Delivery: d, Webhook: rowOf(w), Finished: d.State != delivery.Pending, Pretty: indented(d.Body)}
	last := time.Time{}
	for i := len(d.Attempts) - 1; i >= 0; i-- {
		row := attemptRowOf(i+1, &d.Attempts[i])
		body.Attempts = append(body.Attempts, row)
		if last.IsZero() {
			last = row.At
		}
	}
	brand := c.cfg.Settings.Brand
	body.Headers = []headerRow{
		{"Content-Type", "application/json"},
		{"User-Agent", brand + "-Webhooks/1"},
		{brand + "-Event-Id", d.EventID},
		{brand + "-Delivery-Id", d.ID},
		{brand + "-Signature", fmt.Sprintf("t=%d,v1=… (made from your secret at each attempt, not kept)", last.Unix())},
	}
	return c.show(a, "delivery", view{Title: d.EventType, Section: "webhooks", Body: body})
}

func attemptRowOf(number int, v *delivery.AttemptView) attemptRow {
	row := attemptRow{Number: number, Millis: v.DurationMS}
	var text string
	if json.Unmarshal(v.At, &text) == nil {
		row.At, _ = domain.ParseTime(text)
	}
	if v.Status != nil {
		row.Status = *v.Status
		row.StatusText = strings.TrimSpace(strconv.Itoa(row.Status) + " " + http.StatusText(row.Status))
	}
	if v.Error != nil {
		row.Error = *v.Error
	}
	if v.Answer != nil {
		row.Answer = *v.Answer
	}
	return row
}

// indented lays JSON out for reading; what is none stays as it is.
func indented(text string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(text), "", "  ") != nil {
		return text
	}
	return b.String()
}

func (c *Console) deliveryResend(a *ask) error {
	d, w, err := c.delivery(a)
	if err != nil {
		return err
	}
	if _, err := c.cfg.Webhooks.Resend(a.ctx, d.ID); err != nil {
		return err //nolint:wrapcheck // says it all
	}
	c.record(a, Change{Action: DeliveryResend, ObjectID: d.ID, ObjectName: d.EventType, Detail: "to " + w.URL})
	return a.see("/deliveries/" + d.ID + "?did=sent-again")
}
