package events

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/console/label"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

// find returns the public form of an event. The error is web.ErrNotFound, or the
// database's.
func (p *Pages) find(r *web.Request, id string) (string, error) {
	if !domain.IsID(id) {
		return "", web.ErrNotFound
	}
	text, _, ok, err := p.Feed.Event(r.Context(), r.Session.WorkspaceID, id, r.Now.Add(-p.Retention), r.Session.MaySeePay())
	if err != nil {
		return "", err
	}
	if !ok {
		return "", web.ErrNotFound
	}
	return text, nil
}

// eventBody is what the page of an event is made from.
type eventBody struct {
	Event      *event
	Pretty     string
	Imported   time.Time // when it was brought in from elsewhere; zero: it was published then
	Deliveries []eventDelivery
	Webhooks   int // of the workspace
	Object     object
	Change     change
}

// eventDelivery is the delivery of an event to a webhook.
type eventDelivery struct {
	Webhook  *delivery.Webhook
	Delivery *delivery.FullDelivery
}

func (p *Pages) eventPage(r *web.Request) error {
	text, err := p.find(r, r.Path("event"))
	if errors.Is(err, web.ErrNotFound) {
		return p.whyNotFound(r, r.Path("event"))
	}
	if err != nil {
		return err
	}
	body := &eventBody{Pretty: label.IndentJSON(text)}
	if body.Event, err = parse(text); err != nil {
		return err
	}
	entry, appendedAt, err := p.entry(r, body.Event.ID)
	if err != nil {
		return err
	}
	if appendedAt.Sub(entry.CreatedAt) > importedAfter {
		body.Imported = appendedAt
	}
	wait := p.readBeside(r, body, entry)
	defer wait()
	list, err := p.Webhooks.List(r.Context(), r.Session.WorkspaceID)
	if err != nil {
		return err
	}
	body.Webhooks = len(list)
	for i := range list {
		d, err := p.Webhooks.Delivery(r.Context(), body.Event.ID+"_"+list[i].ID)
		var unknown *delivery.UnknownDeliveryError
		if errors.As(err, &unknown) {
			continue
		}
		if err != nil {
			return err
		}
		body.Deliveries = append(body.Deliveries, eventDelivery{&list[i], d})
	}
	wait()
	return r.Show("event", web.View{Title: body.Event.Type, Section: "events", Body: body})
}

// importedAfter is how much later than its publish time an entry has to be appended to
// be called history. Producers may give a publish time of their own, and some take a
// while to append.
const importedAfter = time.Hour

// entry reads the entry of an event that the session may see. The error is web.ErrNotFound, or the
// database's.
func (p *Pages) entry(r *web.Request, id string) (e *domain.Entry, appendedAt time.Time, err error) {
	var appended *time.Time
	e = &domain.Entry{WorkspaceID: r.Session.WorkspaceID, ID: id}
	err = eventlog.QueryRowInOrder(r.Context(), p.Pool, []any{&e.Position, &e.Type, &e.CreatedAt, &e.Data, &appended}, `
		SELECT position, type, created_at, data::text, appended_at FROM event_log
		 WHERE workspace_id = $1 AND id BETWEEN $2 AND $2 AND public_event IS NOT NULL AND ($3 OR NOT `+eventlog.NeedsPay("")+`)
		 ORDER BY id`,
		e.WorkspaceID, id, r.Session.MaySeePay())
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, appendedAt, web.ErrNotFound
	}
	if err != nil {
		return nil, appendedAt, fmt.Errorf("cannot read an entry: %w", err)
	}
	e.CreatedAt = e.CreatedAt.UTC()
	if appended != nil {
		appendedAt = appended.UTC()
	}
	return e, appendedAt, nil
}

// whyNotFound is the error for the address of an event that does not show.
func (p *Pages) whyNotFound(r *web.Request, id string) error {
	if !domain.IsID(id) {
		return web.ErrNotFound
	}
	e, appendedAt, err := p.entry(r, id)
	if err != nil {
		return err
	}
	days := label.Plural(int(p.Retention/(24*time.Hour)), "day", "days")
	published := e.CreatedAt.Format("2 January 2006")
	switch {
	case e.CreatedAt.After(r.Now.Add(-p.Retention)):
		return &web.PageError{Status: http.StatusNotFound, Title: "Not there yet", Back: "/events",
			Text: "This event shows once the data that it speaks of can be read. That takes a moment: load the page again."}
	case appendedAt.Sub(e.CreatedAt) > importedAfter:
		return &web.PageError{Status: http.StatusNotFound, Title: "Imported history", Back: "/events",
			Text: fmt.Sprintf("This event is of %s and was brought in from elsewhere on %s. Events show for %s after their publish time, so it does not show. If it was older than that when it came, no webhook was told: history is not news. What it did to its object can be read through the API.",
				published, appendedAt.Format("2 January 2006"), days)}
	}
	return &web.PageError{Status: http.StatusNotFound, Title: "Older than what is kept", Back: "/events",
		Text: fmt.Sprintf("This event was published on %s. Events and their deliveries show for %s. Its object can still be read through the API.", published, days)}
}
