package pages

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/signaturecheck"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// Webhooks serves the pages of webhooks and their deliveries.
type Webhooks struct {
	Pool        pg.DB
	Data        *Data
	Store       *delivery.Store
	Settings    policy.Settings // the settings of Store
	Mail        bool            // the service sends mail
	TestTimeout time.Duration   // how long "Send test" waits for the receiver's answer
}

// webhooksRow is a webhook as the pages show it.
type webhooksRow struct {
	delivery.Webhook
	Look      string // on, failing, paused or off
	Succeeded int64  // attempts in the last 24 hours
	Failed    int64
	Backlog   *delivery.Backlog // in the list and on the webhook's page; nil: it is not paused
	Spark     *web.Spark        // attempts of the last 24 hours, in the list; nil: there were none
}

func newRow(w *delivery.Webhook) webhooksRow {
	r := webhooksRow{Webhook: *w, Look: w.State}
	switch {
	case w.Paused():
		r.Look = "paused"
	case w.On() && !w.FailingSince.IsZero():
		r.Look = "failing"
	}
	for outcome, n := range w.Last24Hours {
		if outcome == attempt.OutcomeSuccess {
			r.Succeeded += n
		} else {
			r.Failed += n
		}
	}
	return r
}

// Title returns the webhook's name or, without one, its host and path.
func (r webhooksRow) Title() string { return cmp.Or(r.Name, r.Label()) }

// All reports whether the webhook gets every event type.
func (r webhooksRow) All() bool { return slices.Contains(r.Events, delivery.AllEvents) }

// EventsLabel describes the events that the webhook gets.
func (r webhooksRow) EventsLabel() string {
	if r.All() {
		return "All events"
	}
	return web.Plural(len(r.Events), "event type", "event types")
}

// SuccessRate returns the share of the attempts of the last 24 hours that succeeded, rounded down
// to a tenth of a per cent, so that 100 % means all of them.
func (r webhooksRow) SuccessRate() string {
	permille := r.Succeeded * 1000 / max(r.Succeeded+r.Failed, 1)
	if permille%10 == 0 {
		return fmt.Sprintf("%d %%", permille/10)
	}
	return fmt.Sprintf("%d.%d %%", permille/10, permille%10)
}

// order is where the webhook stands in the list: what needs attention comes first.
func (r webhooksRow) order() int {
	return slices.Index([]string{"failing", "off", "paused", "on"}, r.Look)
}

// NoticeParts splits the webhook's notice, so that the page can show its times in the reader's
// zone; empty without a notice.
func (r webhooksRow) NoticeParts() []web.Part {
	if r.Notice == nil {
		return nil
	}
	return web.Moments(*r.Notice)
}

// find returns a webhook of the session's workspace.
func (p *Webhooks) find(r *web.Request, id string) (*delivery.Webhook, error) {
	w, err := p.Store.Get(r.Context(), id)
	if err != nil {
		return nil, err
	}
	if w.WorkspaceID != r.Session.WorkspaceID {
		return nil, &delivery.UnknownWebhookError{WebhookID: id}
	}
	return w, nil
}

// webhooksListBody is the template data of the list of webhooks.
type webhooksListBody struct {
	List  []webhooksRow
	Max   int
	Mail  bool       // the service sends mail
	Told  bool       // somebody gets mail when a webhook fails
	Chart *web.Chart // attempts of all webhooks together; nil: there are no webhooks
}

func (p *Webhooks) listPage(r *web.Request) error {
	list, err := p.Store.List(r.Context(), r.Session.WorkspaceID)
	if err != nil {
		return err
	}
	body := webhooksListBody{Max: delivery.MaxWebhooks, Mail: p.Mail}
	for i := range list {
		row := newRow(&list[i])
		if row.Backlog, err = list[i].Backlog(r.Context(), p.Store); err != nil {
			return err
		}
		bars, err := attempts(r.Context(), p.Pool, r.Session.WorkspaceID, row.ID, r.Now)
		if err != nil {
			return err
		}
		row.Spark = web.NewSpark("spark-"+row.ID, "Attempts by hour in the last 24 hours", "attempts", bars, web.AttemptSeries())
		body.List = append(body.List, row)
	}
	slices.SortStableFunc(body.List, func(a, b webhooksRow) int { return cmp.Compare(a.order(), b.order()) })
	if len(list) > 0 {
		if body.Chart, err = p.attemptsChart(r.Context(), r.Session.WorkspaceID, "", r.Now); err != nil {
			return err
		}
	}
	if body.Told, err = told(r.Context(), p.Pool, r.Session.WorkspaceID); err != nil {
		return err
	}
	return r.Show("webhooks", web.View{Title: "Webhooks", Section: "webhooks", Body: body})
}

// told reports whether the workspace has an address for mail about its webhooks.
func told(ctx context.Context, pool pg.DB, workspaceID string) (told bool, err error) {
	err = pool.QueryRow(ctx, `SELECT coalesce(notify_email, '') <> '' FROM workspace WHERE workspace_id = $1`, workspaceID).Scan(&told)
	if err != nil {
		return false, fmt.Errorf("cannot look for the workspace's addresses: %w", err)
	}
	return told, nil
}

// attemptsChart draws the attempts of the last 24 hours by hour, of one webhook or, with an empty
// id, of all.
func (p *Webhooks) attemptsChart(ctx context.Context, workspaceID, webhookID string, now time.Time) (*web.Chart, error) {
	bars, err := attempts(ctx, p.Pool, workspaceID, webhookID, now)
	if err != nil {
		return nil, err
	}
	return web.New("deliveries", "Attempts in the last 24 hours", "attempts", bars, web.AttemptSeries()), nil
}

// attempts returns the bars of attemptsChart.
func attempts(ctx context.Context, pool pg.DB, workspaceID, webhookID string, now time.Time) ([]web.Bar, error) {
	bars := web.Empty(now.Truncate(time.Hour).Add(-23*time.Hour), time.Hour, 24, 2)
	var (
		hour    time.Time
		success bool
		n       int64
	)
	err := pg.ForEach(ctx, pool, `
		SELECT at, outcome = 'success', sum(attempts)::bigint FROM attempt_rollup
		 WHERE workspace_id = $1 AND step = 60 AND at >= $3 AND ($2 = '' OR webhook_id = $2)
		 GROUP BY 1, 2`, []any{workspaceID, webhookID, bars[0].At}, []any{&hour, &success, &n}, func() error {
		kind := web.AttemptFailed
		if success {
			kind = web.AttemptSucceeded
		}
		web.Add(bars, hour, time.Hour, kind, n)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot count attempts: %w", err)
	}
	return bars, nil
}

// deliveriesPageSize is how many deliveries a page lists.
const deliveriesPageSize = 25

// webhookBody is the template data of the page of a webhook.
type webhookBody struct {
	Webhook    webhooksRow
	Failing    *delivery.Failing // nil: the webhook is off or not failing
	OffAfter   string            // how long without a success turns the webhook off, such as 3 days
	Lost       *delivery.Lost    // nil: the webhook is off or paused, or got everything
	Chart      *web.Chart
	Outcomes   []outcomeRow // of the failed attempts
	Deliveries []listedDelivery
	State      string // the filters
	Type       string
	From, To   web.Moment
	About      string    // an id or a number that was searched for
	LookedAtTo time.Time // older deliveries were not searched; zero: all were
	States     []string  // to choose from
	Types      []string
	Live       bool   // the page refreshes itself
	Here       string // address of the first page with these filters
	This       string // address of this page
	web.Pager
}

// mostLost is how many failed deliveries, and cancelled ones, the page of a webhook examines.
const mostLost = 100

// SendAgain is the address of the page that sends what failed or waits. It begins with what was lost
// first, unless the webhook has been failing for longer.
func (b *webhookBody) SendAgain() string {
	page := "/webhooks/" + b.Webhook.ID + "/missed"
	if b.Lost == nil || !b.Webhook.FailingSince.IsZero() && b.Lost.Since.After(b.Webhook.FailingSince.Time) {
		return page
	}
	return web.Address(page, "since", b.Lost.Since.Truncate(time.Minute).Format(time.RFC3339))
}

// listedDelivery is a delivery with what its event is about.
type listedDelivery struct {
	delivery.Delivery

	Object reference
}

// nameDeliveries says what the events of deliveries are about.
func nameDeliveries(r *web.Request, data *Data, list []delivery.Delivery) []listedDelivery {
	events := make([]*event, len(list))
	var rows []rowID
	for i := range list {
		d := &list[i]
		events[i] = &event{Data: eventData{ObjectType: d.ObjectType, ObjectID: d.ObjectID, ClientID: d.ClientID}}
		if d.InvoiceNumber != nil && d.ObjectType == "invoice" {
			events[i].Data.InvoiceID, events[i].Data.InvoiceNumber = d.ObjectID, *d.InvoiceNumber
		}
		rows = append(rows, events[i].row())
	}
	n := data.names(r, rows)
	named := make([]listedDelivery, len(list))
	for i := range list {
		named[i] = listedDelivery{list[i], events[i].object(n)}
	}
	return named
}

// outcomeRow is the number of attempts with an outcome.
type outcomeRow struct {
	Outcome attempt.Outcome
	Count   int64
}

// Filtered reports whether the deliveries are filtered.
func (b *webhookBody) Filtered() bool {
	return b.State != "" || b.Type != "" || b.About != "" || !b.From.At.IsZero() || !b.To.At.IsZero()
}

func (p *Webhooks) webhookPage(r *web.Request) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	body := &webhookBody{Webhook: newRow(w), OffAfter: texts.Duration(p.Settings.TurnOffAfter), Types: domain.PublicTypes(), States: []string{
		string(policy.Pending), string(policy.Succeeded), string(policy.Failed), string(policy.Cancelled),
	}}
	if err := body.listDeliveries(r, p.Store, p.Data); err != nil {
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
		if w.On() && !w.Paused() {
			if body.Lost, err = w.Lost(r.Context(), p.Store, mostLost); err != nil {
				return err
			}
		}
		if body.Chart, err = p.attemptsChart(r.Context(), r.Session.WorkspaceID, w.ID, r.Now); err != nil {
			return err
		}
	}
	return r.Show("webhook", web.View{Title: body.Webhook.Title(), Section: "webhooks", Body: body})
}

// Choosable reports whether a delivery can be chosen to be sent again with others.
func (b *webhookBody) Choosable(d listedDelivery) bool {
	return d.State == policy.Failed || d.State == policy.Cancelled
}

// AnyChoosable reports whether the page has such a delivery.
func (b *webhookBody) AnyChoosable() bool {
	for i := range b.Deliveries {
		if b.Choosable(b.Deliveries[i]) {
			return true
		}
	}
	return false
}

// webhooksMaxCounted is how many deliveries are counted for a list; if there are more, it says
// "10,000+".
const webhooksMaxCounted = 10_000

// listDeliveries reads the filters from the address, and the page of deliveries from the store.
func (b *webhookBody) listDeliveries(r *web.Request, store *delivery.Store, data *Data) error {
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
	b.Deliveries, b.LookedAtTo, b.Here = nameDeliveries(r, data, page.Deliveries), page.LookedAtTo.Time, address("")
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

// showing says which deliveries a page has, and of how many. The total of a search is unknown
// before its last page.
func showing(r *web.Request, store *delivery.Store, webhookID string, q delivery.Query, page *delivery.Page) (string, error) {
	n := len(page.Deliveries)
	if n == 0 {
		return "", nil
	}
	which := web.Count(int64(page.Newer+1)) + "–" + web.Count(int64(page.Newer+n))
	switch {
	case q.About != "" && page.Next == "" && page.Previous == "":
		return web.Plural(n, "delivery", "deliveries"), nil
	case q.About != "":
		return which, nil
	}
	counted, all, err := store.CountDeliveries(r.Context(), webhookID, q, webhooksMaxCounted)
	if err != nil {
		return "", err
	}
	counted = max(counted, page.Newer+n)
	if !all {
		return which + " of " + web.Count(int64(counted)) + "+", nil
	}
	return which + " of " + web.Count(int64(counted)), nil
}

// testPoll is how often "Send test" looks for the receiver's answer.
const testPoll = 50 * time.Millisecond

// test sends a test and waits for the receiver's answer, which the page of the delivery then shows.
func (p *Webhooks) test(r *web.Request) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	eventID, err := p.Store.Test(r.Context(), w.ID)
	if err != nil {
		return err
	}
	r.Leave() // waiting for the receiver needs no place
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
				Webhook  webhooksRow
				Delivery string
			}{newRow(w), id}})
		}
	}
}

func (p *Webhooks) turnOn(r *web.Request) error {
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
	// The webhook has missed events since it began to fail. The next page offers to send them.
	since := cmp.Or(w.TurnedOffSince.Time, w.TurnedOffAt.Time)
	return r.Redirect(web.Address("/webhooks/"+w.ID+"/missed", "did", "webhook-on", "since", since.Format(time.RFC3339)))
}

// webhookIDLength is the length of a webhook's id, wh_ and a UUID, which ends a delivery's id.
const webhookIDLength = 3 + 36

// deliveryBody is the template data of the page of a delivery.
type deliveryBody struct {
	Delivery *delivery.FullDelivery
	Webhook  webhooksRow
	About    reference    // what the event is about
	Others   []reference  // what else it names
	Attempts []attemptRow // the newest first
	Headers  []web.Pair   // of the last attempt
	Pretty   string       // the body, indented
	Finished bool
	Waits    bool // waits for its next attempt, which can be made now
}

// attemptRow is an attempt as the page shows it.
type attemptRow struct {
	Number     int
	At         time.Time
	Status     int // 0: no answer
	StatusText string
	Failed     bool
	Failure    string // what went wrong, without repeating the status
	Millis     int64
	Answer     string
}

// findDelivery returns a delivery to a webhook of the session's workspace, if the session may see
// its event.
func (p *Webhooks) findDelivery(r *web.Request) (*delivery.FullDelivery, *delivery.Webhook, error) {
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

func (p *Webhooks) deliveryPage(r *web.Request) error {
	d, w, err := p.findDelivery(r)
	if err != nil {
		return err
	}
	body := &deliveryBody{Delivery: d, Webhook: newRow(w), Finished: d.State != policy.Pending, Pretty: web.IndentJSON(d.Body)}
	body.Waits = !body.Finished && w.On() && (w.Paused() || d.NextAttemptAt.After(r.Now))
	for i := len(d.Attempts) - 1; i >= 0; i-- {
		body.Attempts = append(body.Attempts, newAttemptRow(i+1, &d.Attempts[i]))
	}
	e, err := parse(d.Body)
	if err != nil {
		return err
	}
	n := p.Data.names(r, mentioned(e))
	body.About, body.Others = e.object(n), e.references(n)
	body.Headers = p.headersSent(d, w.Standard, body.Attempts)
	return r.Show("delivery", web.View{Title: d.EventType, Section: "webhooks", Body: body})
}

// headersSent returns the headers of the last attempt. Signatures and the secrets used are not
// stored, so of the signature only the time is known: the time of the attempt.
func (p *Webhooks) headersSent(d *delivery.FullDelivery, standard bool, newestFirst []attemptRow) []web.Pair {
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

func (p *Webhooks) resend(r *web.Request) error {
	d, _, err := p.findDelivery(r)
	if err != nil {
		return err
	}
	if _, err := p.Store.Resend(r.Context(), d.ID); err != nil {
		return err
	}
	return r.Redirect("/deliveries/" + d.ID + "?did=sent-again")
}

func (p *Webhooks) retry(r *web.Request) error {
	d, _, err := p.findDelivery(r)
	if err != nil {
		return err
	}
	if _, err := p.Store.RetryNow(r.Context(), d.ID); err != nil {
		return err
	}
	return r.Redirect("/deliveries/" + url.PathEscape(d.ID) + "?did=retried")
}

// resendSeveral sends the chosen deliveries of a page again, and leads back to the page.
func (p *Webhooks) resendSeveral(r *web.Request) error {
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

// missedBody is the template data of the page "Send missed".
type missedBody struct {
	Webhook webhooksRow
	Since   time.Time
	Count   int64
	Waiting int64 // deliveries
	Earlier int64 // those of Waiting whose events are from before Since
	Failed  int64 // deliveries of events since then
	Counted bool
	Fault   string
}

// readSince reads the time that the page or its form asks for; empty: a day ago or, if the webhook began
// to fail before that, an hour before it did, because an event is published before its first attempt ends.
// A time before the retention becomes the earliest possible one.
func (p *Webhooks) readSince(b *missedBody, text string, now time.Time) {
	b.Since = now.Add(-24 * time.Hour).Truncate(time.Minute)
	t := b.Since
	if failing := b.Webhook.FailingSince.Add(-time.Hour).Truncate(time.Minute); !b.Webhook.FailingSince.IsZero() && failing.Before(t) {
		t = failing.UTC()
	}
	if text != "" {
		var ok bool
		if t, ok = web.ParseMoment(text); !ok {
			b.Fault = "Enter a date and a time."
			return
		}
	}
	if oldest := now.Add(-p.Settings.Retention); t.Before(oldest) {
		t = oldest.Add(time.Minute).Truncate(time.Second).UTC()
	}
	b.Since = t
}

// missedPage shows how many events would be sent.
func (p *Webhooks) missedPage(r *web.Request) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	body := missedBody{Webhook: newRow(w)}
	p.readSince(&body, r.Query("since"), r.Now)
	return p.showMissed(r, http.StatusOK, &body)
}

func (p *Webhooks) showMissed(r *web.Request, status int, body *missedBody) error {
	if body.Fault == "" {
		var since *delivery.SinceError
		switch err := p.countMissed(r, body); {
		case errors.As(err, &since):
			body.Fault, status = web.Sentence(since.Error()), http.StatusUnprocessableEntity
		case err != nil:
			return err
		}
	}
	return r.ShowStatus(status, "webhook-missed", web.View{Title: "Send what was missed", Section: "webhooks", Body: body})
}

func (p *Webhooks) countMissed(r *web.Request, body *missedBody) error {
	m, err := p.Store.CountMissed(r.Context(), body.Webhook.ID, body.Since)
	if err != nil {
		return err
	}
	recovery, err := p.Store.CountRecovery(r.Context(), body.Webhook.ID, body.Since, nil)
	if err != nil {
		return err
	}
	body.Count, body.Waiting, body.Failed, body.Counted = m.Count, max(m.Waiting, recovery.Pending), recovery.Failed, true
	body.Earlier = body.Waiting - recovery.Pending
	return nil
}

// recover sends what waits for the webhook, and again what failed.
func (p *Webhooks) recover(r *web.Request) error {
	return p.sendSince(r, "recovered", func(ctx context.Context, webhookID string, since time.Time) (int64, error) {
		sent, err := p.Store.Recover(ctx, webhookID, since, nil)
		if err != nil {
			return 0, err
		}
		return sent.Pending + sent.Failed, nil
	})
}

// sendMissed sends the events that were published while the webhook was off.
func (p *Webhooks) sendMissed(r *web.Request) error {
	return p.sendSince(r, "missed", func(ctx context.Context, webhookID string, since time.Time) (int64, error) {
		m, err := p.Store.SendMissed(ctx, webhookID, since)
		if err != nil {
			return 0, err
		}
		return m.Count, nil
	})
}

// sendSince sends something again since the time in the form. did names the notice if there was anything
// to send.
func (p *Webhooks) sendSince(r *web.Request, did string, send func(ctx context.Context, webhookID string, since time.Time) (sent int64, err error)) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	body := missedBody{Webhook: newRow(w)}
	if p.readSince(&body, r.Field("since"), r.Now); body.Fault != "" {
		return p.showMissed(r, http.StatusUnprocessableEntity, &body)
	}
	sent, err := send(r.Context(), w.ID, body.Since)
	var since *delivery.SinceError
	switch {
	case errors.As(err, &since):
		body.Fault = web.Sentence(since.Error())
		return p.showMissed(r, http.StatusUnprocessableEntity, &body)
	case err != nil:
		return err
	case sent == 0:
		did = "nothing-missed"
	}
	return r.Redirect("/webhooks/" + w.ID + "?did=" + did)
}

// pausing serves the buttons that pause and resume a webhook.
type pausing struct{ *Webhooks }

func (p pausing) pause(r *web.Request) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	if _, err := w.Pause(r.Context(), p.Store); err != nil {
		return err
	}
	return r.Redirect("/webhooks/" + w.ID + "?did=webhook-paused")
}

func (p pausing) resume(r *web.Request) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	if _, err := w.Resume(r.Context(), p.Store); err != nil {
		return err
	}
	return r.Redirect("/webhooks/" + w.ID + "?did=webhook-resumed")
}

func (p *Webhooks) create(r *web.Request) error {
	f, events := webhooksReadForm(r)
	// Add the store's faults to those of the choice, so that the page shows all.
	f.addFaults(p.Store.Check(f.change(events)))
	if len(f.Faults) > 0 {
		return webhooksShowForm(r, http.StatusUnprocessableEntity, f)
	}
	w, err := p.Store.Create(r.Context(), r.Session.WorkspaceID, delivery.Definition{
		URL: f.Address, Events: events, Name: f.Name, Description: f.Description, Standard: f.Standard,
	})
	if f.addFaults(err) {
		return webhooksShowForm(r, http.StatusUnprocessableEntity, f)
	}
	if err != nil {
		return err
	}
	return p.showSecret(r, w, false)
}

// webhooksSecretBody is the template data of the page that shows a signing secret.
type webhooksSecretBody struct {
	Webhook delivery.Webhook
	Secret  string
	Samples []signaturecheck.Sample
	Header  string
	Rotated bool
}

func (p *Webhooks) showSecret(r *web.Request, w *delivery.WithSecret, rotated bool) error {
	header := p.Settings.Brand.SignatureHeader()
	list, err := signaturecheck.Samples(header)
	if err != nil {
		return err
	}
	return r.Show("webhook-shown", web.View{Title: "Signing secret", Section: "webhooks", Body: &webhooksSecretBody{
		Webhook: w.Webhook, Secret: w.Secret, Samples: list, Header: header, Rotated: rotated,
	}})
}

func (p *Webhooks) editPage(r *web.Request) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	if f := restored(r); f != nil {
		return webhooksShowForm(r, http.StatusOK, f)
	}
	f := &webhooksForm{ID: w.ID, Address: w.URL, Name: w.Name, Description: w.Description, Standard: w.Standard, All: slices.Contains(w.Events, delivery.AllEvents), Chosen: map[string]bool{}}
	for _, e := range w.Events {
		f.Chosen[e] = true
	}
	return webhooksShowForm(r, http.StatusOK, f)
}

func (p *Webhooks) edit(r *web.Request) error {
	before, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	f, events := webhooksReadForm(r)
	f.addFaults(p.Store.Check(f.change(events)))
	if len(f.Faults) > 0 {
		return webhooksShowForm(r, http.StatusUnprocessableEntity, f)
	}
	w, err := p.Store.Edit(r.Context(), before.ID, f.change(events))
	if f.addFaults(err) {
		return webhooksShowForm(r, http.StatusUnprocessableEntity, f)
	}
	if err != nil {
		return err
	}
	return r.Redirect("/webhooks/" + w.ID + "?did=webhook-saved")
}

// confirmBody is the template data of the pages that ask for confirmation.
type confirmBody struct {
	Webhook webhooksRow
	Overlap time.Duration
	OldEnds time.Time // when the current secret would end
}

// confirm returns a handler for a page that asks for confirmation.
func (p *Webhooks) confirm(page, title string) web.Handler {
	return func(r *web.Request) error {
		w, err := p.find(r, r.Path("webhook"))
		if err != nil {
			return err
		}
		overlap := p.Settings.SecretOverlap
		return r.Show(page, web.View{Title: title, Section: "webhooks", Body: &confirmBody{newRow(w), overlap, r.Now.Add(overlap)}})
	}
}

func (p *Webhooks) rotate(r *web.Request) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	after, err := p.Store.RotateSecret(r.Context(), w.ID)
	if err != nil {
		return err
	}
	return p.showSecret(r, after, true)
}

func (p *Webhooks) delete(r *web.Request) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	if err := p.Store.Delete(r.Context(), w.ID); err != nil {
		return err
	}
	return r.Redirect("/webhooks?did=webhook-deleted")
}

// webhooksForm is the form of a webhook, as it was sent, with its faults.
type webhooksForm struct {
	ID                string // empty: a new webhook
	Address           string
	Name, Description string
	Standard          bool // also send the headers of Standard Webhooks
	All               bool
	Chosen            map[string]bool
	Groups            []web.EventGroup
	Faults            web.Faults
	Restored          bool // from a draft
}

func webhooksShowForm(r *web.Request, status int, f *webhooksForm) error {
	f.Groups = web.EventGroups()
	title := "Add webhook"
	if f.ID != "" {
		title = "Edit webhook"
	}
	return r.ShowStatus(status, "webhook-form", web.View{Title: title, Section: "webhooks", Body: f})
}

// webhooksReadForm reads the form and returns the chosen event types.
func webhooksReadForm(r *web.Request) (f *webhooksForm, events []string) {
	f = &webhooksForm{
		ID: r.Path("webhook"), Address: r.Field("address"), Name: r.Field("name"), Description: r.Field("description"),
		Standard: r.Field("standard") != "", All: r.Field("choice") == "all", Chosen: map[string]bool{}, Faults: web.Faults{},
	}
	for _, e := range r.PostForm["event"] {
		f.Chosen[e] = true
	}
	switch {
	case f.All:
		return f, []string{delivery.AllEvents}
	case len(f.Chosen) == 0:
		f.Faults["events"] = "Choose at least one event type, or all."
	case f.Chosen[delivery.AllEvents]:
		f.Faults["events"] = "Choose from the list."
	}
	for _, e := range domain.PublicTypes() {
		if f.Chosen[e] {
			events = append(events, e)
		}
	}
	return f, events
}

// restored returns the form from the draft for this page; nil: none.
func restored(r *web.Request) *webhooksForm {
	if !r.RestoreDraft() {
		return nil
	}
	f, _ := webhooksReadForm(r)
	f.Faults, f.Restored = nil, true
	return f
}

// change returns the form as a change of a webhook, with these event types.
func (f *webhooksForm) change(events []string) delivery.Change {
	return delivery.Change{URL: &f.Address, Events: events, Name: &f.Name, Description: &f.Description, Standard: &f.Standard}
}

// MaxName returns how many characters a name may have.
func (f *webhooksForm) MaxName() int { return delivery.MaxName }

// MaxDescription returns how many characters a description may have.
func (f *webhooksForm) MaxDescription() int { return delivery.MaxDescription }

// addFaults adds the faults that the store found. It returns false if there are none, or err is
// about something else.
func (f *webhooksForm) addFaults(err error) bool {
	found := false
	for _, one := range web.Joined(err) {
		var (
			address *attempt.AddressError
			events  *delivery.EventsError
			text    *delivery.TextError
		)
		field, reason := "form", one
		switch {
		case errors.As(one, &address):
			if field = "address"; f.Address == "" {
				reason = errNoAddress
			}
		case errors.As(one, &events):
			field = "events"
		case errors.As(one, &text):
			field = text.Field
		case errors.Is(one, delivery.ErrTooManyWebhooks):
			reason = errTooMany
		default:
			continue
		}
		found = true
		if f.Faults[field] == "" {
			f.Faults[field] = web.Sentence(reason.Error())
		}
	}
	return found
}

var errNoAddress = errors.New("enter the address of your program")

var errTooMany = fmt.Errorf("a workspace can have at most %d webhooks. Delete one first", delivery.MaxWebhooks)

// newPage shows the form of a new webhook, unless the workspace has the maximum number.
func newPage(store *delivery.Store) web.Handler {
	return func(r *web.Request) error {
		list, err := store.List(r.Context(), r.Session.WorkspaceID)
		if err != nil {
			return err
		}
		if len(list) >= delivery.MaxWebhooks {
			return &web.PageError{Status: http.StatusConflict, Title: "No further webhook", Text: web.Sentence(errTooMany.Error()), Back: "/webhooks"}
		}
		if f := restored(r); f != nil {
			return webhooksShowForm(r, http.StatusOK, f)
		}
		return webhooksShowForm(r, http.StatusOK, &webhooksForm{All: true, Standard: true})
	}
}

// checkAddress says, while a person types an address, why it would be refused.
func (p *Webhooks) checkAddress(r *web.Request) error {
	fault := ""
	address := r.Query("address")
	if err := attempt.CheckAddress(address, p.Settings.Allow); err != nil && address != "" {
		fault = web.Sentence(err.Error())
	}
	return r.ShowPart("webhook-form", "address-fault", fault)
}

// Routes returns the routes of the pages.
func (p *Webhooks) Routes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Pattern: "/webhooks", Access: web.SignedIn, Handle: p.listPage},
		{Method: http.MethodGet, Pattern: "/webhooks/new", Access: web.Admin, Handle: newPage(p.Store)},
		{Method: http.MethodGet, Pattern: "/webhooks/check-address", Access: web.Admin, Handle: p.checkAddress},
		{Method: http.MethodPost, Pattern: "/webhooks", Access: web.Admin, Handle: p.create},
		{Method: http.MethodGet, Pattern: "/webhooks/{webhook}", Access: web.SignedIn, Heavy: true, Handle: p.webhookPage},
		{Method: http.MethodGet, Pattern: "/webhooks/{webhook}/edit", Access: web.Admin, Handle: p.editPage},
		{Method: http.MethodPost, Pattern: "/webhooks/{webhook}/edit", Access: web.Admin, Handle: p.edit},
		{Method: http.MethodGet, Pattern: "/webhooks/{webhook}/rotate", Access: web.Admin, Handle: p.confirm("webhook-rotate", "Rotate the signing secret")},
		{Method: http.MethodPost, Pattern: "/webhooks/{webhook}/rotate", Access: web.Admin, Handle: p.rotate},
		{Method: http.MethodGet, Pattern: "/webhooks/{webhook}/delete", Access: web.Admin, Handle: p.confirm("webhook-delete", "Delete webhook")},
		{Method: http.MethodPost, Pattern: "/webhooks/{webhook}/delete", Access: web.Admin, Handle: p.delete},
		{Method: http.MethodPost, Pattern: "/webhooks/{webhook}/test", Access: web.Admin, Handle: p.test},
		{Method: http.MethodPost, Pattern: "/webhooks/{webhook}/turn-on", Access: web.Admin, Handle: p.turnOn},
		{Method: http.MethodPost, Pattern: "/webhooks/{webhook}/pause", Access: web.Admin, Handle: pausing{p}.pause},
		{Method: http.MethodPost, Pattern: "/webhooks/{webhook}/resume", Access: web.Admin, Handle: pausing{p}.resume},
		{Method: http.MethodGet, Pattern: "/webhooks/{webhook}/missed", Access: web.Admin, Heavy: true, Handle: p.missedPage},
		{Method: http.MethodPost, Pattern: "/webhooks/{webhook}/missed", Access: web.Admin, Handle: p.sendMissed},
		{Method: http.MethodPost, Pattern: "/webhooks/{webhook}/recover", Access: web.Admin, Handle: p.recover},

		{Method: http.MethodGet, Pattern: "/deliveries/{delivery}", Access: web.SignedIn, Handle: p.deliveryPage},
		{Method: http.MethodPost, Pattern: "/deliveries/{delivery}/send-again", Access: web.Admin, Handle: p.resend},
		{Method: http.MethodPost, Pattern: "/deliveries/{delivery}/retry", Access: web.Admin, Handle: p.retry},
		{Method: http.MethodPost, Pattern: "/webhooks/{webhook}/send-again", Access: web.Admin, Handle: p.resendSeveral},
	}
}
