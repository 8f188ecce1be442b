package console

import (
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/domain"
)

// eventsShown is how many events a page lists.
const eventsShown = 50

// eventRow is an event as the pages show it.
type eventRow struct {
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

// References are the ids that the event names besides its object's.
func (e *eventRow) References() []headerRow {
	var list []headerRow
	for _, r := range []headerRow{
		{"invoice", e.Data.InvoiceID}, {"number", e.Data.InvoiceNumber}, {"client", e.Data.ClientID},
		{"contractor", e.Data.ContractorID}, {"period", e.Data.Period},
	} {
		if r.Value != "" && r.Value != e.Data.ObjectID {
			list = append(list, r)
		}
	}
	return list
}

// eventsBody is what the list of events is made from.
type eventsBody struct {
	List  []eventRow
	Type  string // the filters
	Until string // a day: events up to its end, UTC
	Find  string // an id that was looked for and not found
	Types []string
	First bool
	Here  string
	Days  int // for which events are kept
	pager
}

// Filtered tells that only some events are asked for.
func (b *eventsBody) Filtered() bool { return b.Type != "" || b.Until != "" }

func (c *Console) eventsPage(a *ask) error {
	body := &eventsBody{Types: domain.PublicTypes(), First: a.query("before") == "", Days: int(c.cfg.Settings.Retention / (24 * time.Hour))}
	if id := a.query("id"); id != "" {
		if _, err := c.event(a, id); err == nil {
			return a.see("/events/" + url.PathEscape(id))
		} else if !errors.Is(err, errNotHere) {
			return err
		}
		body.Find = id
	}
	if t := a.query("type"); slices.Contains(body.Types, t) {
		body.Type = t
	}
	q := eventQuery{workspaceID: a.session.WorkspaceID, typ: body.Type, oldest: c.oldest(a.now), limit: eventsShown}
	if day, err := time.Parse(time.DateOnly, a.query("until")); err == nil {
		body.Until, q.before = a.query("until"), day.AddDate(0, 0, 1)
	}
	if before, err := strconv.ParseInt(a.query("before"), 10, 64); err == nil {
		q.beforePosition = before
	}
	list, next, err := c.history.events(a.ctx, q)
	if err != nil {
		return err
	}
	for _, text := range list {
		e, err := parseEvent(text)
		if err != nil {
			return err
		}
		body.List = append(body.List, *e)
	}
	filters := url.Values{}
	set(filters, "type", body.Type)
	set(filters, "until", body.Until)
	body.Here = addressOf("/events", filters)
	if !body.First {
		body.Newest = body.Here
	}
	if next > 0 {
		filters.Set("before", strconv.FormatInt(next, 10))
		body.Older = addressOf("/events", filters)
	}
	return c.show(a, "events", view{Title: "Events", Section: "events", Body: body})
}

// oldest is from when on events and deliveries are kept.
func (c *Console) oldest(now time.Time) time.Time { return now.Add(-c.cfg.Settings.Retention) }

// event gives the public form of an event. The error is errNotHere, or the
// database's.
func (c *Console) event(a *ask, id string) (string, error) {
	if !domain.IsID(id) {
		return "", errNotHere
	}
	text, ok, err := c.cfg.Feed.Event(a.ctx, a.session.WorkspaceID, id, c.oldest(a.now), true)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", errNotHere
	}
	return text, nil
}

func parseEvent(text string) (*eventRow, error) {
	e := &eventRow{}
	if err := json.Unmarshal([]byte(text), e); err != nil {
		return nil, errors.New("an event cannot be read: " + err.Error())
	}
	return e, nil
}

// eventBody is what the page of an event is made from.
type eventBody struct {
	Event      *eventRow
	Pretty     string
	Deliveries []eventDelivery
	Webhooks   int // of the workspace
}

// eventDelivery is what became of an event at one webhook.
type eventDelivery struct {
	Webhook  webhookRow
	Delivery *delivery.FullDelivery
}

func (c *Console) eventPage(a *ask) error {
	text, err := c.event(a, a.path("event"))
	if err != nil {
		return err
	}
	body := &eventBody{Pretty: indented(text)}
	if body.Event, err = parseEvent(text); err != nil {
		return err
	}
	list, err := c.cfg.Webhooks.List(a.ctx, a.session.WorkspaceID)
	if err != nil {
		return err
	}
	body.Webhooks = len(list)
	for i := range list {
		d, err := c.cfg.Webhooks.Delivery(a.ctx, body.Event.ID+"_"+list[i].ID)
		var unknown *delivery.UnknownDeliveryError
		if errors.As(err, &unknown) {
			continue
		}
		if err != nil {
			return err
		}
		body.Deliveries = append(body.Deliveries, eventDelivery{rowOf(&list[i]), d})
	}
	return c.show(a, "event", view{Title: body.Event.Type, Section: "events", Body: body})
}
