package pages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections/anomaly"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// eventsPageSize is how many events a page lists.
const eventsPageSize = 50

// Events serves the pages of events.
type Events struct {
	Pool      pg.DB
	Feed      *eventlog.Feed
	Webhooks  *delivery.Store
	Reader    *readapi.Reader // reads what API callers get
	Data      *Data
	Replayer  *replay.Replayer // computes what entries changed
	Anomalies *anomaly.Store
	Retention time.Duration // how long events are shown

	BesideTimeout time.Duration // how long the page of an event waits for its object and its changes
}

// Routes returns the routes of the pages.
func (p *Events) Routes() []web.Route {
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

// mentioned returns the rows that events name.
func mentioned(list ...*event) (rows []rowID) {
	for _, e := range list {
		rows = append(rows, e.row(), rowID{"invoices", e.Data.InvoiceID}, rowID{"clients", e.Data.ClientID}, rowID{"contractors", e.Data.ContractorID})
	}
	return rows
}

// row returns the row that the event is about; zero: none. Credit is shown on the page of its client.
func (e *event) row() rowID {
	switch resource, id := rowOf(e); resource {
	case "":
		return rowID{}
	case "credit":
		return rowID{"clients", id}
	default:
		return rowID{resource, id}
	}
}

// object returns what the event is about.
func (e *event) object(n *names) reference {
	row, text := e.row(), ""
	switch {
	case row == rowID{}:
		o := reference{Kind: e.Data.ObjectType, Text: e.Data.ObjectID}
		if o.Kind == "period" {
			o.Href = periodAddress(o.Text)
		}
		return o
	case row.ID != e.Data.ObjectID:
		text = e.Data.ObjectID
	case e.Data.ObjectID == e.Data.InvoiceID:
		text = e.Data.InvoiceNumber
	}
	o := n.refer(e.Data.ObjectType, row, text)
	if text != "" && text != n.of[row].Name { // such as a document, whose amount need not be the invoice's
		o.Amount = ""
	}
	return o
}

// periodAddress is the address of the invoices of a period.
func periodAddress(period string) string {
	return "/data/invoices?period=" + url.QueryEscape(period)
}

// references returns what the event names besides its object.
func (e *event) references(n *names) (list []reference) {
	for _, r := range []reference{
		n.refer("invoice", rowID{"invoices", e.Data.InvoiceID}, e.Data.InvoiceNumber),
		n.refer("client", rowID{"clients", e.Data.ClientID}, ""),
		n.refer("contractor", rowID{"contractors", e.Data.ContractorID}, ""),
		{Kind: "period", Text: e.Data.Period, ID: e.Data.Period, Href: periodAddress(e.Data.Period)},
	} {
		if r.ID != "" && r.ID != e.Data.ObjectID {
			list = append(list, r)
		}
	}
	return list
}

// listedEvent is an event with what people call the things in it.
type listedEvent struct {
	event

	Object     reference
	References []reference
}

// eventsListBody is the template data of the list of events.
type eventsListBody struct {
	List  []listedEvent
	Type  string // the filters
	Until string // a day: events up to its end, UTC
	About string // an id or a number that was searched for
	Types []string
	First bool   // the first page, which refreshes itself
	Here  string // address of the first page with these filters
	Days  int    // how many days events are shown

	LookedAtTo time.Time // older events were not searched; zero: all were
	web.Pager
}

// show fills in the events of a page.
func (b *eventsListBody) show(p *Events, r *web.Request, texts []string) error {
	list := make([]*event, len(texts))
	for i, text := range texts {
		var err error
		if list[i], err = parse(text); err != nil {
			return err
		}
	}
	n := p.Data.names(r, mentioned(list...))
	for _, e := range list {
		b.List = append(b.List, listedEvent{*e, e.object(n), e.references(n)})
	}
	return nil
}

// Filtered reports whether the list is filtered.
func (b *eventsListBody) Filtered() bool { return b.Type != "" || b.Until != "" || b.About != "" }

func (p *Events) listPage(r *web.Request) error {
	body := &eventsListBody{Types: domain.PublicTypes(), First: r.Query("before") == "", Days: int(p.Retention / (24 * time.Hour))}
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
	q := query{workspaceID: r.Session.WorkspaceID, typ: body.Type, oldest: r.Now.Add(-p.Retention), pay: r.Session.MaySeePay(), limit: eventsPageSize}
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
	err := p.Reader.Beside(r.Context(), q.workspaceID, q.beforePosition-1, func(ctx context.Context, pool pg.DB) (err error) {
		list, next, err = find(ctx, pool, q)
		return err
	})
	if err != nil {
		return err
	}
	if err := body.show(p, r, list); err != nil {
		return err
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

// searchPage lists the events that name the search text. Each page covers one window of the log.
func (p *Events) searchPage(r *web.Request, b *eventsListBody, q query) error {
	var found *eventlog.Found
	err := p.Reader.Beside(r.Context(), q.workspaceID, q.beforePosition, func(ctx context.Context, pool pg.DB) (err error) {
		found, err = eventlog.NewFeed(pool).Search(ctx, eventlog.Search{
			WorkspaceID: q.workspaceID, Text: b.About, Type: q.typ, Oldest: q.oldest, Before: q.before, From: q.beforePosition, NoPay: !q.pay,
		})
		return err
	})
	if err != nil {
		return err
	}
	texts := make([]string, len(found.Hits))
	for i, hit := range found.Hits {
		texts[i] = hit.JSON
	}
	if err := b.show(p, r, texts); err != nil {
		return err
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

// find returns the public form of an event. The error is web.ErrNotFound, or the
// database's.
func (p *Events) find(r *web.Request, id string) (string, error) {
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

// eventBody is the template data of the page of an event.
type eventBody struct {
	Event      *event
	Pretty     string
	Imported   time.Time // when it was imported; zero: it was not
	Deliveries []eventDelivery
	Webhooks   int       // how many the workspace has
	About      reference // what people call its object
	References []reference
	Object     object
	Change     change
}

// eventDelivery is the delivery of an event to a webhook.
type eventDelivery struct {
	Webhook  *delivery.Webhook
	Delivery *delivery.FullDelivery
}

func (p *Events) eventPage(r *web.Request) error {
	text, err := p.find(r, r.Path("event"))
	if errors.Is(err, web.ErrNotFound) {
		return p.whyNotFound(r, r.Path("event"))
	}
	if err != nil {
		return err
	}
	body := &eventBody{Pretty: web.IndentJSON(text)}
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
	n := p.Data.names(r, mentioned(body.Event))
	body.About, body.References = body.Event.object(n), body.Event.references(n)
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

// importedAfter is how long after its publish time an entry must be appended to count as imported
// history. Producers may set the publish time themselves, and some take a while to append.
const importedAfter = time.Hour

// entry reads the entry of an event that the session may see. The error is web.ErrNotFound, or the
// database's.
func (p *Events) entry(r *web.Request, id string) (e *domain.Entry, appendedAt time.Time, err error) {
	var (
		appended *time.Time
		salt     []byte
		value    *string
	)
	e = &domain.Entry{WorkspaceID: r.Session.WorkspaceID, ID: id}
	err = eventlog.QueryRowInOrder(r.Context(), p.Pool, []any{&e.Position, &e.Type, &e.CreatedAt, &e.Data, &appended, &salt, &value}, `
		SELECT e.position, e.type, e.created_at, e.data::text, e.appended_at, d.salt, d.value FROM `+eventlog.FromLog+`
		 WHERE e.workspace_id = $1 AND e.id BETWEEN $2 AND $2 AND e.public_event IS NOT NULL AND ($3 OR NOT `+eventlog.NeedsPay("e")+`)
		 ORDER BY e.id`,
		e.WorkspaceID, id, r.Session.MaySeePay())
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, appendedAt, web.ErrNotFound
	}
	if err != nil {
		return nil, appendedAt, fmt.Errorf("cannot read an entry: %w", err)
	}
	e.CreatedAt = e.CreatedAt.UTC()
	eventlog.SetDetached(e, salt, value)
	if appended != nil {
		appendedAt = appended.UTC()
	}
	return e, appendedAt, nil
}

// whyNotFound returns the page for an event that is not shown.
func (p *Events) whyNotFound(r *web.Request, id string) error {
	if !domain.IsID(id) {
		return web.ErrNotFound
	}
	e, appendedAt, err := p.entry(r, id)
	if err != nil {
		return err
	}
	days := web.Plural(int(p.Retention/(24*time.Hour)), "day", "days")
	published := e.CreatedAt.Format("2 January 2006")
	switch {
	case e.CreatedAt.After(r.Now.Add(-p.Retention)):
		return &web.PageError{Status: http.StatusNotFound, Title: "Not there yet", Back: "/events",
			Text: "This event appears once its data can be read. That takes a moment. Reload the page."}
	case appendedAt.Sub(e.CreatedAt) > importedAfter:
		return &web.PageError{Status: http.StatusNotFound, Title: "Imported history", Back: "/events",
			Text: fmt.Sprintf("This event is of %s and was brought in from elsewhere on %s. Events show for %s after their publish time, so it does not show. If it was older than that when it came, no webhook was told: history is not news. What it did to its object can be read through the API.",
				published, appendedAt.Format("2 January 2006"), days)}
	}
	return &web.PageError{Status: http.StatusNotFound, Title: "Older than what is kept", Back: "/events",
		Text: fmt.Sprintf("This event was published on %s. Events and their deliveries show for %s. Its object can still be read through the API.", published, days)}
}

// BesideTimeout is the default time that a page waits for its optional parts, such as an event's
// object. After that, the page comes without them.
const BesideTimeout = 500 * time.Millisecond

// maxAnswer is how much of an answer the page shows, in bytes.
const maxAnswer = 32 << 10

// object is the answer that an API caller would get for an event's object now.
type object struct {
	Path    string // of the request; empty: there is nothing to read
	List    bool   // the path is a list, which the page does not read
	Answer  string // indented JSON
	Cut     bool   // Answer has only the beginning
	Status  int    // 0: it could not be read in time
	Removed string // what include=removed gives, as JSON; empty: the object was not removed
}

// readBeside starts to read the optional parts of the page. The function that it returns waits for
// them; it may be called again.
func (p *Events) readBeside(r *web.Request, body *eventBody, entry *domain.Entry) (wait func()) {
	ctx, cancel := context.WithTimeout(r.Context(), p.BesideTimeout)
	var reading sync.WaitGroup
	reading.Go(func() { body.Object = p.readObject(ctx, r, body.Event) })
	reading.Go(func() { body.Change = p.readChange(ctx, r, entry, body.Event) })
	return func() { reading.Wait(); cancel() }
}

func (p *Events) readObject(ctx context.Context, r *web.Request, e *event) object {
	o := object{Path: strings.NewReplacer("{object_id}", e.Data.ObjectID, "{client_id}", e.Data.ClientID).Replace(route.ReadOf(e.Data.ObjectType))}
	if o.List = strings.Contains(o.Path, "?"); o.List || o.Path == "" {
		return o
	}
	read, err := p.Reader.Get(ctx, readapi.Ask{WorkspaceID: r.Session.WorkspaceID, Permissions: web.PermissionsOf(r.Session.MaySeePay()), Path: o.Path})
	if err != nil {
		r.Warn("cannot read the object of an event", err)
		return o
	}
	if read.Status != http.StatusOK && read.Status != http.StatusNotFound {
		return o
	}
	o.Status, o.Removed = read.Status, web.IndentJSON(string(read.Removed))
	if o.Status == http.StatusOK {
		o.Answer = web.IndentJSON(string(read.Body))
	}
	if o.Cut = len(o.Answer) > maxAnswer; o.Cut {
		o.Answer = strings.ToValidUTF8(o.Answer[:maxAnswer], "")
	}
	return o
}

// query selects events, the newest first.
type query struct {
	workspaceID    string
	typ            string    // empty: all
	before         time.Time // published before; zero: all
	beforePosition int64     // at lower positions; 0: all
	oldest         time.Time // published then or later
	pay            bool      // include events that need pay:read
	limit          int
}

// find returns events in their public form, and the position before which the next page starts; 0
// on the last page. As in the feed, an event shows only once the read models have its effect.
func find(ctx context.Context, pool pg.DB, q query) (list []string, next int64, err error) {
	var before *time.Time
	if !q.before.IsZero() {
		before = &q.before
	}
	args := []any{q.workspaceID, q.oldest, before, q.beforePosition, q.limit + 1}
	filter := ""
	if q.typ != "" {
		args = append(args, q.typ)
		filter = ` AND e.type = $6`
	}
	if !q.pay {
		filter += ` AND NOT ` + eventlog.NeedsPay("e")
	}
	var (
		position  int64
		positions []int64
		event     string
	)
	err = pg.ForEach(ctx, pool, `
		WITH page AS MATERIALIZED (
			SELECT log_position_since($1, $2) AS first,
			       least(c.position, coalesce(log_position_since($1, $3) - 1, c.position), CASE WHEN $4::bigint > 0 THEN $4 - 1 ELSE c.position END) AS last
			  FROM log_checkpoint c WHERE c.workspace_id = $1 AND c.consumer = '`+eventlog.ReadModels+`'
		)
		SELECT e.position, e.public_event FROM event_log e
		 WHERE e.workspace_id = $1 AND e.public_event IS NOT NULL
		   AND e.position >= (SELECT first FROM page) AND e.position <= (SELECT last FROM page)`+filter+`
		 ORDER BY e.position DESC LIMIT $5`, args, []any{&position, &event}, func() error {
		list, positions = append(list, event), append(positions, position)
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("cannot read events: %w", err)
	}
	if len(list) > q.limit {
		return list[:q.limit], positions[q.limit-1], nil
	}
	return list, 0, nil
}

// change is what an event changed.
type change struct {
	Position int64
	Meaning  string   // what events of its type change
	Reasons  []string // why it had no effect, or not all of it
	Unread   bool     // the rest could not be read in time
	Hidden   bool     // the rest is only for people who may see pay

	Compared      bool // Fields compares the object before and after; otherwise it has the values in the entry
	Made, Deleted bool // what happened to the object
	Fields        []changedField
	Others        string // the other rows that changed, such as "2 time entries and 1 charge"
}

// changedField is a field with its values, as lines of text.
type changedField struct {
	Name          string
	Before, After []string
}

// rowOf returns the row that an event is about, as replay names it; empty: none.
func rowOf(e *event) (resource, id string) {
	switch e.Data.ObjectType {
	case "invoice", "credit_note":
		return "invoices", e.Data.ObjectID
	case "payout":
		return "payments", e.Data.ObjectID
	case "time_entry":
		return "time-entries", e.Data.ObjectID
	case "charge":
		return "charges", e.Data.ObjectID
	case "credit":
		return "credit", e.Data.ClientID
	}
	return "", ""
}

// readChange compares the rows before and after the event if the log up to it is short. Otherwise
// it returns the values in the entry.
func (p *Events) readChange(ctx context.Context, r *web.Request, entry *domain.Entry, e *event) change {
	c := change{Position: entry.Position, Meaning: web.Change(e.Type)}
	given, payOnly := entry.Given()
	if c.Hidden = payOnly && !r.Session.MaySeePay(); c.Hidden {
		return c
	}
	reasons, err := p.Anomalies.At(ctx, anomaly.Filter{WorkspaceID: entry.WorkspaceID, All: true}, entry.Position)
	if err != nil {
		r.Warn("cannot read whether an event is an anomaly", err)
		c.Unread = true
		return c
	}
	for i := range reasons {
		c.Reasons = append(c.Reasons, anomaly.Explain(reasons[i].Reason))
	}
	resource, id := rowOf(e)
	effect, err := p.Replayer.EffectOf(ctx, replay.EffectRequest{WorkspaceID: entry.WorkspaceID, Position: entry.Position, Resource: resource, ID: id})
	switch {
	case err != nil:
		r.Warn("cannot read what an event changed", err)
		c.Unread = true
	case effect == nil:
		c.give(given, r.Session.MaySeePay())
	default:
		c.compare(effect, r.Session.MaySeePay())
	}
	return c
}

// repeated reports whether a field says nothing new: the page already shows it, or it is part of a
// period, whose label is shown.
func repeated(name string) bool {
	switch name {
	case "id", "client_id", "contractor_id", "updated_at", "period", "period_start", "period_end":
		return true
	}
	return false
}

func (c *change) give(given []domain.GivenField, pay bool) {
	for i := range given {
		f := &given[i]
		if i > 0 && (pay || f.Part == domain.Base) && (f.Name == "period" || !repeated(f.Name)) { // the first is the object's id
			c.Fields = append(c.Fields, changedField{Name: web.Field(f.Name), After: web.Value(f.Name, f.JSON)})
		}
	}
}

func (c *change) compare(effect *replay.Effect, pay bool) {
	c.Compared = true
	var others []string
	for _, o := range effect.Others {
		if !pay {
			o.Rows -= o.PayOnly
		}
		if o.Rows > 0 {
			others = append(others, web.Rows(o.Resource, o.Rows))
		}
	}
	if last := len(others) - 1; last > 0 {
		others = append(others[:last-1], others[last-1]+" and "+others[last])
	}
	c.Others = strings.Join(others, ", ")
	row := effect.Row
	if row == nil {
		return
	}
	if row.PayOnly && !pay {
		c.Hidden = true
		return
	}
	c.Made, c.Deleted = row.Made, row.Deleted
	for _, f := range row.Fields {
		empty := f.Before+f.After == "null" || f.Before+f.After == "false" || f.Before+f.After == "[]" // in a row that was made or deleted
		if (pay || f.Part == domain.Base) && !empty && !repeated(f.Name) {
			c.Fields = append(c.Fields, changedField{web.Field(f.Name), web.Value(f.Name, f.Before), web.Value(f.Name, f.After)})
		}
	}
}
