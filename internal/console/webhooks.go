package console

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
)

// webhooksBody is what the list of webhooks is made from.
type webhooksBody struct {
	List  []webhookRow
	Max   int
	Chart *chart // of all of them together; nil: there are none
}

// webhookRow is a webhook as lists show it.
type webhookRow struct {
	delivery.Webhook
	Look      string // on, failing or off
	Succeeded int64  // attempts in the last 24 hours
	Failed    int64
}

func rowOf(w *delivery.Webhook) webhookRow {
	row := webhookRow{Webhook: *w, Look: w.State}
	if w.On() && !w.FailingSince.IsZero() {
		row.Look = "failing"
	}
	for outcome, n := range w.Last24Hours {
		if outcome == delivery.OutcomeSuccess {
			row.Succeeded += n
		} else {
			row.Failed += n
		}
	}
	return row
}

// noticePart is a piece of a notice: words, or a moment.
type noticePart struct {
	Words string
	At    time.Time // zero: it is words
}

// noticeMoment is a moment as delivery writes it into a notice.
const noticeMoment = "2 January 2006, 15:04 UTC"

// momentPattern finds them.
var momentPattern = regexp.MustCompile(`\d{1,2} [A-Z][a-z]+ \d{4}, \d\d:\d\d UTC`)

// Warning is the webhook's notice in pieces, so that the moments in it can be
// shown in the reader's zone; empty: there is nothing to say.
func (r webhookRow) Warning() []noticePart {
	if r.Notice == nil {
		return nil
	}
	var parts []noticePart
	rest := *r.Notice
	for _, at := range momentPattern.FindAllString(rest, -1) {
		t, err := time.Parse(noticeMoment, at)
		if err != nil {
			continue // it only looked like one
		}
		before, after, _ := strings.Cut(rest, at)
		parts, rest = append(parts, noticePart{Words: before}, noticePart{At: t}), after
	}
	return append(parts, noticePart{Words: rest})
}

// All tells that the webhook gets every type.
func (r webhookRow) All() bool { return slices.Contains(r.Events, delivery.AllEvents) }

// EventsWords says which events the webhook chose.
func (r webhookRow) EventsWords() string {
	if r.All() {
		return "All events"
	}
	return plural(len(r.Events), "event type", "event types")
}

func (c *Console) webhooksPage(a *ask) error {
	list, err := c.cfg.Webhooks.List(a.ctx, a.session.WorkspaceID)
	if err != nil {
		return err
	}
	body := webhooksBody{Max: delivery.MaxWebhooks}
	for i := range list {
		body.List = append(body.List, rowOf(&list[i]))
	}
	if len(list) > 0 {
		if body.Chart, err = c.attemptsChart(a, ""); err != nil {
			return err
		}
	}
	return c.show(a, "webhooks", view{Title: "Webhooks", Section: "webhooks", Body: body})
}

// attemptsChart draws the attempts of the last 24 hours, by hour; of one
// webhook, or with an empty id of all.
func (c *Console) attemptsChart(a *ask, webhookID string) (*chart, error) {
	hours, err := c.history.attempts(a.ctx, a.session.WorkspaceID, webhookID, a.now)
	if err != nil {
		return nil, err
	}
	return newChart("deliveries", "Attempts in the last 24 hours", "attempts", hours, []series{
		{Name: "Succeeded", Look: lookGood}, {Name: "Failed", Look: lookBad},
	}), nil
}

// webhook gives the webhook of the address, if it is of this workspace.
func (c *Console) webhook(a *ask) (*delivery.Webhook, error) {
	return c.webhookOf(a, a.path("webhook"))
}

func (c *Console) webhookOf(a *ask, id string) (*delivery.Webhook, error) {
	w, err := c.cfg.Webhooks.Get(a.ctx, id)
	if err != nil {
		return nil, err
	}
	if w.WorkspaceID != a.session.WorkspaceID {
		return nil, &delivery.UnknownWebhookError{WebhookID: id}
	}
	return w, nil
}

// webhookForm is the form of a webhook: as it was sent, and what is wrong with
// it.
type webhookForm struct {
	ID      string // empty: a new one
	Address string
	All     bool
	Chosen  map[string]bool
	Groups  []eventGroup
	Faults  map[string]string
}

func (c *Console) webhookNewPage(a *ask) error {
	return c.showWebhookForm(a, http.StatusOK, &webhookForm{All: true})
}

func (c *Console) showWebhookForm(a *ask, status int, f *webhookForm) error {
	f.Groups = eventGroups()
	title := "Add webhook"
	if f.ID != "" {
		title = "Edit webhook"
	}
	return c.showStatus(a, status, "webhook-form", view{Title: title, Section: "webhooks", Body: f})
}

// readWebhookForm reads the form and gives the choice of event types.
func readWebhookForm(a *ask) (f *webhookForm, events []string) {
	f = &webhookForm{ID: a.path("webhook"), Address: a.form("address"), All: a.form("choice") == "all", Chosen: map[string]bool{}, Faults: map[string]string{}}
	for _, e := range a.r.PostForm["event"] {
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

// refused notes what the store says about the input; false for other errors.
func (f *webhookForm) refused(err error) bool {
	var (
		address *delivery.AddressError
		events  *delivery.EventsError
	)
	switch {
	case errors.As(err, &address):
		f.Faults["address"] = sentence(address.Error())
	case errors.As(err, &events):
		f.Faults["events"] = sentence(events.Error())
	case errors.Is(err, delivery.ErrTooManyWebhooks):
		f.Faults["form"] = "This workspace has its 5 webhooks. Delete one first."
	default:
		return false
	}
	return true
}

// sentence makes an error's text one.
func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// webhookCheckAddress says as somebody types whether an address will do.
func (c *Console) webhookCheckAddress(a *ask) error {
	words := ""
	address := a.query("address")
	if err := delivery.CheckAddress(address, c.cfg.Settings.Allow); err != nil && address != "" {
		words = sentence(err.Error())
	}
	return c.showFragment(a, "webhook-form", "address-fault", words)
}

// webhookShown is what the page that shows a signing secret is made from.
type webhookShown struct {
	Webhook  delivery.Webhook
	Secret   string
	Snippets []snippet
	Header   string
	Rotated  bool
}

func (c *Console) webhookCreate(a *ask) error {
	f, events := readWebhookForm(a)
	// Both complaints at once, though the store gives the first it finds.
	f.refused(delivery.CheckAddress(f.Address, c.cfg.Settings.Allow))
	if len(f.Faults) > 0 {
		return c.showWebhookForm(a, http.StatusUnprocessableEntity, f)
	}
	w, err := c.cfg.Webhooks.Create(a.ctx, a.session.WorkspaceID, f.Address, events)
	if f.refused(err) {
		return c.showWebhookForm(a, http.StatusUnprocessableEntity, f)
	}
	if err != nil {
		return err
	}
	c.record(a, audit.Change{Action: audit.WebhookCreate, ObjectID: w.ID, ObjectName: w.URL, Detail: "events: " + strings.Join(w.Events, ", ")})
	return c.showSecret(a, w, false)
}

func (c *Console) showSecret(a *ask, w *delivery.WithSecret, rotated bool) error {
	header := c.cfg.Settings.Brand.SignatureHeader()
	list, err := snippets(header)
	if err != nil {
		return err
	}
	return c.show(a, "webhook-shown", view{Title: "Signing secret", Section: "webhooks", Body: webhookShown{
		Webhook: w.Webhook, Secret: w.Secret, Snippets: list, Header: header, Rotated: rotated,
	}})
}

func (c *Console) webhookEditPage(a *ask) error {
	w, err := c.webhook(a)
	if err != nil {
		return err
	}
	f := &webhookForm{ID: w.ID, Address: w.URL, All: slices.Contains(w.Events, delivery.AllEvents), Chosen: map[string]bool{}}
	for _, e := range w.Events {
		f.Chosen[e] = true
	}
	return c.showWebhookForm(a, http.StatusOK, f)
}

func (c *Console) webhookEdit(a *ask) error {
	before, err := c.webhook(a)
	if err != nil {
		return err
	}
	f, events := readWebhookForm(a)
	f.refused(delivery.CheckAddress(f.Address, c.cfg.Settings.Allow))
	if len(f.Faults) > 0 {
		return c.showWebhookForm(a, http.StatusUnprocessableEntity, f)
	}
	w, err := c.cfg.Webhooks.Edit(a.ctx, before.ID, &f.Address, events)
	if f.refused(err) {
		return c.showWebhookForm(a, http.StatusUnprocessableEntity, f)
	}
	if err != nil {
		return err
	}
	detail := "events: " + strings.Join(w.Events, ", ")
	if w.URL != before.URL {
		detail = "address before: " + before.URL + "; " + detail
	}
	c.record(a, audit.Change{Action: audit.WebhookEdit, ObjectID: w.ID, ObjectName: w.URL, Detail: detail})
	return a.see("/webhooks/" + w.ID + "?did=webhook-saved")
}

// confirmBody is what the pages that ask before something is done are made
// from.
type confirmBody struct {
	Webhook webhookRow
	Overlap time.Duration
	OldEnds time.Time // when the present secret would end
}

func (c *Console) confirm(a *ask, page, title string) error {
	w, err := c.webhook(a)
	if err != nil {
		return err
	}
	overlap := c.cfg.Settings.SecretOverlap
	return c.show(a, page, view{Title: title, Section: "webhooks", Body: confirmBody{rowOf(w), overlap, a.now.Add(overlap)}})
}

func (c *Console) webhookRotatePage(a *ask) error {
	return c.confirm(a, "webhook-rotate", "Rotate the signing secret")
}

func (c *Console) webhookRotate(a *ask) error {
	w, err := c.webhook(a)
	if err != nil {
		return err
	}
	after, err := c.cfg.Webhooks.RotateSecret(a.ctx, w.ID)
	if err != nil {
		return err
	}
	c.record(a, audit.Change{Action: audit.WebhookRotateSecret, ObjectID: w.ID, ObjectName: w.URL,
		Detail: "the old one ends " + after.OldSecretUntil.Format(time.RFC3339)})
	return c.showSecret(a, after, true)
}

func (c *Console) webhookDeletePage(a *ask) error {
	return c.confirm(a, "webhook-delete", "Delete webhook")
}

func (c *Console) webhookDelete(a *ask) error {
	w, err := c.webhook(a)
	if err != nil {
		return err
	}
	if err := c.cfg.Webhooks.Delete(a.ctx, w.ID); err != nil {
		return err
	}
	c.record(a, audit.Change{Action: audit.WebhookDelete, ObjectID: w.ID, ObjectName: w.URL})
	return a.see("/webhooks?did=webhook-deleted")
}
