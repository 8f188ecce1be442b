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
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
)

// webhookIDLength is that of wh_ and a UUID, at the end of a delivery's id.
const webhookIDLength = 3 + 36

// deliveryBody is what the page of a delivery is made from.
type deliveryBody struct {
	Delivery *delivery.FullDelivery
	Webhook  webhookRow
	Attempts []attemptRow // the newest first
	Headers  []headerRow  // those of the last attempt
	Pretty   string       // the body, indented
	Finished bool
}

// attemptRow is an attempt as the page shows it.
type attemptRow struct {
	Number     int
	At         time.Time
	Status     int // 0: no answer
	StatusText string
	Failed     bool
	Why        string // what went wrong, as far as the status does not say it
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
		return nil, nil, err
	}
	return d, w, nil
}

func (c *Console) deliveryPage(a *ask) error {
	d, w, err := c.delivery(a)
	if err != nil {
		return err
	}
	body := &deliveryBody{Delivery: d, Webhook: rowOf(w), Finished: d.State != delivery.Pending, Pretty: indented(d.Body)}
	for i := len(d.Attempts) - 1; i >= 0; i-- {
		body.Attempts = append(body.Attempts, attemptRowOf(i+1, &d.Attempts[i]))
	}
	body.Headers = c.headersSent(d, body.Attempts)
	return c.show(a, "delivery", view{Title: d.EventType, Section: "webhooks", Body: body})
}

// headersSent are the headers of the last attempt. What was signed with is not
// kept, and neither is the signature: of that header, only the time is known,
// which is the attempt's.
func (c *Console) headersSent(d *delivery.FullDelivery, newestFirst []attemptRow) []headerRow {
	names := c.cfg.Settings.Brand
	list := []headerRow{
		{"Content-Type", "application/json"},
		{"Content-Length", strconv.Itoa(len(d.Body))},
		{"User-Agent", names.UserAgent()},
		{names.EventIDHeader(), d.EventID},
		{names.DeliveryIDHeader(), d.ID},
	}
	if len(newestFirst) > 0 {
		list = append(list, headerRow{names.SignatureHeader(), fmt.Sprintf("t=%d,v1=…", newestFirst[0].At.Unix())})
	}
	return list
}

// why says what went wrong in an attempt, as far as its status does not.
func why(v delivery.AttemptView) string {
	switch {
	case v.Error == nil:
		return ""
	case v.Status == nil:
		return *v.Error
	}
	rest, named := strings.CutPrefix(*v.Error, "answered "+strconv.Itoa(*v.Status))
	if !named {
		return *v.Error
	}
	_, more, _ := strings.Cut(rest, ", ")
	return more
}

func attemptRowOf(number int, v *delivery.AttemptView) attemptRow {
	row := attemptRow{Number: number, Millis: v.DurationMS, Failed: v.Error != nil, Why: why(*v)}
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
		return err
	}
	c.record(a, audit.Change{Action: audit.DeliveryResend, ObjectID: d.ID, ObjectName: d.EventType, Detail: "to " + w.URL})
	return a.see("/deliveries/" + d.ID + "?did=sent-again")
}
