package console

import (
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/reference"
)

var signingSecret = regexp.MustCompile(`whsec_[0-9A-Za-z]{40}`)

// TestWebhookFromFirstToLast adds a webhook, tests it, lets it fail, sends again,
// rotates its secret and deletes it.
func TestWebhookFromFirstToLast(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.deliver()
	answer := make(chan int, 10)
	r := s.receiver(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(<-answer)
		_, _ = w.Write([]byte("the receiver's own words"))
	})
	p := s.signIn(acme, session.Admin)
	p.get("/webhooks").status(http.StatusOK).has("No webhooks yet")
	p.post("/webhooks", url.Values{"address": {"http://x.example"}}).status(http.StatusUnprocessableEntity).
		has("must start with https://", "Choose at least one event type")
	p.post("/webhooks", url.Values{"address": {r.URL}, "choice": {"all"}, "name": {strings.Repeat("x", 101)}, "description": {strings.Repeat("x", 501)}}).
		status(http.StatusUnprocessableEntity).has("The name must have at most 100 characters.", "The description must have at most 500 characters.")
	p.get("/webhooks/check-address?address=" + url.QueryEscape("https://10.0.0.1/")).status(http.StatusOK).has("not a public address")
	p.get("/webhooks/check-address?address=" + url.QueryEscape(r.URL)).status(http.StatusOK).hasNot("fault")

	made := p.post("/webhooks", url.Values{"address": {r.URL + "/in"}, "choice": {"some"}, "event": {"invoice.paid", "period.closed"}}).
		status(http.StatusOK).has("shown only once", "Node.js", "Python", "Go", "PHP", "SERVICE-Signature")
	secret := signingSecret.FindString(made.body)
	hook := testkit.Must(s.webhooks.List(t.Context(), acme))(t)[0]
	if strings.Join(hook.Events, ",") != "invoice.paid,period.closed" && strings.Join(hook.Events, ",") != "period.closed,invoice.paid" {
		t.Errorf("chose %v", hook.Events)
	}
	here := "/webhooks/" + hook.ID

	answer <- 200
	tested := p.post(here+"/test", nil).to()
	p.get(tested).status(http.StatusOK).has("test.ping", "succeeded", "200 OK", "the receiver&#39;s own words", "SERVICE-Delivery-Id")
	answer <- 500
	failed := p.post(here+"/test", nil).to()
	p.get(failed).status(http.StatusOK).has("pending", "500 Internal Server Error").hasNot("Send again")
	p.post(failed+"/send-again", nil).status(http.StatusConflict)
	answer <- 204
	again := p.post(tested+"/send-again", nil).to()
	testkit.Eventually(t, func() error {
		a := p.get(again + "&live=1").status(http.StatusOK)
		if !strings.Contains(a.body, "2 attempts") {
			return errors.New("it was not sent again")
		}
		a.has("204 No Content").hasNot("<html")
		return nil
	})
	p.get(here + "?state=pending").status(http.StatusOK).has(strings.TrimPrefix(failed, "/")).hasNot(strings.TrimPrefix(tested, "/"))
	p.get(here + "?type=invoice.paid").status(http.StatusOK).has("No delivery of the last 30 days matches")

	p.get(here + "/rotate").status(http.StatusOK).has("signed with both until")
	rotated := signingSecret.FindString(p.post(here+"/rotate", nil).status(http.StatusOK).has("both the old and the new secret").body)
	if rotated == secret || rotated == "" {
		t.Error("the secret was not rotated")
	}
	p.get(here+"/rotate").status(http.StatusOK).has("It was rotated not long ago. Messages are signed with both secrets until", "Rotate secret</button>")
	for n := 3; n <= delivery.MaxSecrets; n++ {
		p.post(here+"/rotate", nil).status(http.StatusOK).has(fmt.Sprintf("signed with %d secrets. The older ones end on", n))
	}
	p.get(here + "/rotate").status(http.StatusOK).has("cannot be rotated before then").hasNot("Rotate secret</button>")
	p.post(here+"/rotate", nil).status(http.StatusConflict).has("Too many secrets sign", "rotate again after")
	p.get(here).has("signed with 5 secrets")
	answer <- 202 // to the delivery that waits for its retry, which goes to the new address at once
	p.get(p.post(here+"/edit", url.Values{"address": {r.URL + "/other"}, "choice": {"all"}}).to()).has("Saved.", "/other")
	testkit.Eventually(t, func() error {
		if a := p.get(failed).status(http.StatusOK); !strings.Contains(a.body, "202 Accepted") {
			return errors.New("what waited was not sent to the new address")
		}
		return nil
	})
	for _, path := range []string{"/webhooks", here, here + "/edit", "/audit"} {
		p.get(path).hasNot(secret, rotated)
	}
	if logged := s.logs.String(); strings.Contains(logged, secret) || strings.Contains(logged, rotated) {
		t.Error("a secret is in the log")
	}
	if page := p.get(here).has("Delete this webhook"); strings.Index(page.body, here+"/delete") < strings.Index(page.body, "Recent deliveries") {
		t.Error("deleting stands among the settings")
	}
	s.signIn(acme, session.Viewer).get(here).status(http.StatusOK).hasNot("Delete this webhook")
	p.get(here+"/delete").status(http.StatusOK).has("Delete this webhook?", strings.TrimPrefix(r.URL, "https://")+"/other")
	p.get(p.post(here+"/delete", nil).to()).status(http.StatusOK).has("The webhook was deleted")
	p.get(here).status(http.StatusNotFound)
	p.get("/audit").has("Added webhook", "Sent a test to webhook", "Sent again", "Rotated the secret of webhook", "Edited webhook", "address before: "+r.URL+"/in", "Deleted webhook")
}

// TestWebhooksAreNamed: two webhooks at one host are told apart wherever they are named,
// by their names and paths, and the query of an address is on no page but the form.
func TestWebhooksAreNamed(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.deliver()
	r := s.receiver(func(http.ResponseWriter, *http.Request) {})
	host := strings.TrimPrefix(r.URL, "https://")
	p := s.signIn(acme, session.Admin)
	p.post("/webhooks", url.Values{"address": {r.URL + "/payroll?token=hunter2"}, "choice": {"all"}, "name": {"Payroll"}, "description": {"Run by Dana"}}).
		status(http.StatusOK).has("Payroll (" + host + "/payroll?…)")
	p.get("/webhooks/new").has(`name="standard" value="1" checked>`)
	p.post("/webhooks", url.Values{"address": {r.URL + "/reports"}, "choice": {"all"}}).status(http.StatusOK).has(host + "/reports")
	hook := testkit.Must(s.webhooks.List(t.Context(), acme))(t)[0]
	here := "/webhooks/" + hook.ID
	p.get("/webhooks").has(">Payroll</a>", r.URL+"/payroll?…", "Run by Dana", ">"+host+"/reports</a>")
	p.get(here).has(">Payroll</h1>", r.URL+"/payroll?…", "Run by Dana")
	tested := p.post(here+"/test", nil).to()
	event, _, _ := strings.Cut(strings.TrimPrefix(tested, "/deliveries/"), "_wh_")
	pages := []string{"/webhooks", here, here + "/rotate", here + "/delete", here + "/missed", tested, "/events/" + event, "/audit"}
	for _, path := range pages {
		p.get(path).status(http.StatusOK).has("Payroll").hasNot("hunter2")
	}
	p.get("/events/" + event).has("Payroll (" + host + "/payroll?…)")
	p.get(here+"/edit").has(`value="Payroll"`, `value="Run by Dana"`, "token=hunter2")
	p.get(p.post(here+"/edit", url.Values{"address": {r.URL + "/payroll"}, "choice": {"all"}}).to()).has("Saved.", ">"+host+"/payroll</h1>").hasNot("Run by Dana")
	p.get("/audit").has("name before: &#34;Payroll&#34;").hasNot("hunter2")
}

// TestStandardWebhooks: the headers are a choice of the form, shown on the webhook's page
// and among those of a delivery.
func TestStandardWebhooks(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.deliver()
	r := s.receiver(func(http.ResponseWriter, *http.Request) {})
	p := s.signIn(acme, session.Admin)
	p.post("/webhooks", url.Values{"address": {r.URL}, "choice": {"all"}, "standard": {"1"}}).status(http.StatusOK).has("webhook-signature")
	here := "/webhooks/" + testkit.Must(s.webhooks.List(t.Context(), acme))(t)[0].ID
	p.get(here).has("Standard Webhooks headers are sent too")
	p.get(here + "/edit").has(`name="standard" value="1" checked>`)
	p.get(p.post(here+"/test", nil).to()).has("webhook-id", "webhook-timestamp", "v1,…")
	p.get(p.post(here+"/edit", url.Values{"address": {r.URL}, "choice": {"all"}}).to()).has("Saved.").hasNot("Standard Webhooks headers are sent")
	p.get(p.post(here+"/test", nil).to()).has("SERVICE-Signature").hasNot("webhook-signature")
	p.get("/audit").has("headers of Standard Webhooks: false")
}

// TestWebhooksInTheList: the list says what share of the attempts succeeded, never 100 %
// where one failed, and how many events were too old to be sent.
func TestWebhooksInTheList(t *testing.T) {
	t.Parallel()
	s := setup(t)
	hook := testkit.Must(s.webhooks.Create(t.Context(), acme, delivery.Definition{URL: "https://x.example/", Events: []string{"all"}}))(t)
	count := func(outcome string, n int) {
		s.exec(`INSERT INTO attempt_rollup (workspace_id, step, webhook_id, at, outcome, attempts, latency)
			VALUES ($1, 60, $2, date_trunc('hour', $3::timestamptz, 'UTC'), $4, $5, '{}')`, acme, hook.ID, s.clock.Now(), outcome, n)
	}
	p := s.signIn(acme, session.Viewer)
	p.get("/webhooks").has(`<span class="muted">None</span>`).hasNot("too old", " %<", `class="spark"`)
	count("success", 4999)
	p.get("/webhooks").has(`4,999 <span class="about">100 %</span>`)
	count("timeout", 1)
	s.exec(`UPDATE webhook_cursor SET expired = 1203 WHERE webhook_id = $1`, hook.ID)
	s.exec(`INSERT INTO attempt_rollup (workspace_id, step, webhook_id, at, outcome, attempts, latency)
		VALUES ($1, 60, $2, date_trunc('hour', $3::timestamptz, 'UTC') - interval '5 hours', 'answered', 2500, '{}')`, acme, hook.ID, s.clock.Now())
	p.get("/webhooks").has(`<svg class="spark" role="img"`, "Attempts by hour in the last 24 hours: 2,501 failed, 4,999 succeeded.",
		`class="box bad" x="75%" width="3.33%" y="15.5" height="12.5"`, `class="box good"`)
	s.exec(`DELETE FROM attempt_rollup WHERE attempts = 2500`)
	p.get("/webhooks").has(`<strong class="why">1</strong>`, `<span class="about">99.9 %</span>`, "1,203 events too old to send when their turn came")
}

func TestAtMostFiveWebhooks(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.signIn(acme, session.Admin)
	for range 5 {
		p.get("/webhooks/new").status(http.StatusOK).has("Add webhook", `name="address"`)
		p.post("/webhooks", url.Values{"address": {"https://x.example/"}, "choice": {"all"}}).status(http.StatusOK)
	}
	p.post("/webhooks", url.Values{"address": {"https://x.example/"}, "choice": {"all"}}).status(http.StatusUnprocessableEntity).has("Delete one first")
	p.get("/webhooks").hasNot("Add webhook").has("at most 5 webhooks")
	p.get("/webhooks/new").status(http.StatusConflict).has("A workspace can have at most 5 webhooks. Delete one first.").hasNot(`name="address"`)
}

// TestTurnedOffAndBack finds the notice, turns the webhook on, and sends the events
// that it missed, whose number is shown before.
func TestTurnedOffAndBack(t *testing.T) {
	t.Parallel()
	s := setup(t)
	got := make(chan struct{}, 10)
	r := s.receiver(func(http.ResponseWriter, *http.Request) { got <- struct{}{} })
	hook := testkit.Must(s.webhooks.Create(t.Context(), acme, delivery.Definition{URL: r.URL, Events: []string{"invoice.reversed"}}))(t)
	here := "/webhooks/" + hook.ID
	s.turnOff(hook.ID, time.Now())
	for range 3 {
		s.append(acme, "invoice.reversed", `{"invoice_id":"inv_1"}`)
	}
	s.append(acme, "charge.deleted", `{"charge_id":"ch_1"}`)
	p := s.signIn(acme, session.Admin)
	p.get(here).status(http.StatusOK).has("This webhook was turned off", "the name did not resolve", "Turn back on").hasNot("Send test")
	p.post(here+"/test", nil).status(http.StatusConflict).has("The webhook is off")
	s.deliver()
	missed := p.post(here+"/turn-on", nil).to()
	page := p.get(missed).status(http.StatusOK).has("The webhook is on again", "<strong>3</strong> events were missed", "Send 3 missed events")
	since := regexp.MustCompile(`name="since" value="([^"]+Z)"`).FindStringSubmatch(page.body)[1]
	p.get(p.post(here+"/missed", url.Values{"since": {since}}).to()).status(http.StatusOK).has("The missed events are being sent")
	for range 3 {
		testkit.Receive(t, got, "a missed event")
	}
	// Messages that wait or have failed were not missed; they are sent at once.
	testkit.Eventually(t, func() error {
		var n int
		err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM webhook_delivery WHERE webhook_id = $1 AND state = 'succeeded'`, hook.ID).Scan(&n)
		if err != nil || n != 3 {
			return fmt.Errorf("%d are recorded: %w", n, err)
		}
		return nil
	})
	s.exec(`UPDATE webhook_delivery SET state = 'failed' WHERE webhook_id = $1 AND position = (SELECT max(position) FROM webhook_delivery WHERE webhook_id = $1)`, hook.ID)
	p.get(here+"/missed").status(http.StatusOK).has("No event was published while the webhook was off", "<strong>0</strong> messages wait for another attempt, and <strong>1</strong> has failed", "Send them all now").hasNot("Nothing was missed")
	p.get(p.post(here+"/recover", url.Values{"since": {since}}).to()).status(http.StatusOK).has("What waited and what failed is being sent")
	testkit.Receive(t, got, "a message that had failed")
	testkit.Eventually(t, func() error {
		var n int
		if err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM webhook_waiting`).Scan(&n); err != nil || n != 0 {
			return fmt.Errorf("%d wait: %w", n, err)
		}
		return nil
	})
	s.exec(`UPDATE webhook_delivery SET state = 'pending', next_attempt_at = $2 WHERE webhook_id = $1 AND position = 3`, hook.ID, s.clock.Now().Add(time.Hour))
	s.exec(`INSERT INTO webhook_waiting (workspace_id, webhook_id, position, created_at, attempts, next_attempt_at, epoch)
		SELECT d.workspace_id, webhook_id, position, d.created_at, 1, next_attempt_at, epoch FROM webhook_delivery d JOIN webhook w USING (webhook_id) WHERE d.state = 'pending'`)
	p.get(here+"/missed").status(http.StatusOK).has("<strong>1</strong> message waits for another attempt, and <strong>0</strong> have failed", "Send them all now").hasNot("Nothing was missed", "earlier")
	p.post(here+"/recover", url.Values{"since": {"2035-01-01T00:00:00Z"}}).status(http.StatusUnprocessableEntity).has("in the future")
	p.get(here + "/missed?since=2035-01-01T00:00").status(http.StatusUnprocessableEntity).has("in the future")
	p.get(here + "/missed?since=yesterday").status(http.StatusOK).has("Enter a date and a time")
	p.get("/audit").has("Turned on webhook", "3 events since")
}

// TestMissedAfterALongOutage: what waits or has failed is shown since the webhook began to fail, or since the
// time that is asked for, and what waits from before that is not kept quiet about.
func TestMissedAfterALongOutage(t *testing.T) {
	t.Parallel()
	s := setup(t)
	hook := testkit.Must(s.webhooks.Create(t.Context(), acme, delivery.Definition{URL: "https://hooks.example.com", Events: []string{"invoice.reversed"}}))(t).ID
	for range 2 {
		s.append(acme, "invoice.reversed", `{"invoice_id":"inv_1"}`)
	}
	s.exec(`INSERT INTO webhook_delivery (workspace_id, webhook_id, position, created_at, event_id, event_type, state, next_attempt_at, attempts)
		SELECT workspace_id, $2, position, created_at, id, type, CASE position WHEN 1 THEN 'pending' ELSE 'failed' END, CASE position WHEN 1 THEN now() END, '[]' FROM event_log WHERE workspace_id = $1`, acme, hook)
	s.exec(`INSERT INTO webhook_waiting (workspace_id, webhook_id, position, created_at, attempts, next_attempt_at, epoch)
		SELECT d.workspace_id, webhook_id, position, d.created_at, 1, next_attempt_at, epoch FROM webhook_delivery d JOIN webhook w USING (webhook_id) WHERE d.state = 'pending'`)
	published := s.clock.Now()
	s.clock.Advance(10 * time.Minute) // they waited for others
	s.exec(`UPDATE webhook SET failing_since = $1`, s.clock.Now())
	s.clock.Advance(48 * time.Hour)
	p, here := s.signIn(acme, session.Admin), "/webhooks/"+hook+"/missed"
	p.get(here).status(http.StatusOK).has("<strong>1</strong> message waits for another attempt, and <strong>1</strong> has failed", "Send them all now").hasNot("Nothing was missed", "earlier")
	s.exec(`UPDATE webhook SET failing_since = NULL`)
	again := regexp.MustCompile(`<span>1 message was never delivered. <a href="([^"]*)">Send it again</a>`).FindStringSubmatch(p.get("/webhooks/" + hook).body)
	if again == nil {
		t.Fatal("the page of a webhook that works again does not say what it never got")
	}
	p.get(html.UnescapeString(again[1])).status(http.StatusOK).has("<strong>1</strong> has failed", "Send them all now")
	s.signIn(acme, session.Viewer).get("/webhooks/" + hook).has("1 message was never delivered.").hasNot("again</a>")
	p.get("/").has("Needs attention", "works, but 1 message was never delivered.")
	p.get(here).status(http.StatusOK).has("<strong>1</strong> message waits for another attempt, and <strong>0</strong> have failed",
		"1 message that waits is about earlier events. Choose an earlier time to send it too.").hasNot("Nothing was missed", "now</button>")
	p.get(here+"?since="+published.UTC().Add(-time.Hour).Format("2006-01-02T15:04")).status(http.StatusOK).has("<strong>1</strong> has failed", "Send them all now").hasNot("earlier")
}

// TestReference: anyone can read the API's reference; its style and script are assets.
func TestReference(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.stranger().get("/api").status(http.StatusOK).has("<h1>Ledgerfeed API</h1>", `href="api/guides/pages"`)
	page := s.stranger().get("/api/guides/pages").status(http.StatusOK).has("<h1>Pages and removed rows</h1>").hasNot("<style").hasNot("<script>")
	style := regexp.MustCompile(`<link rel="stylesheet" href="(/assets/reference\.[0-9a-f]+\.css)"/>`).FindStringSubmatch(page.body)
	if style == nil {
		t.Fatalf("no style in %s", page.body)
	}
	s.stranger().get(style[1]).status(http.StatusOK).has("--paper: ")
	script := regexp.MustCompile(`<script src="(/assets/reference\.[0-9a-f]+\.js)"></script>`).FindStringSubmatch(page.body)
	if script == nil {
		t.Fatalf("no script in %s", page.body)
	}
	s.stranger().get(script[1]).status(http.StatusOK).has("payout_sent_to_payroll_at")
	for _, path := range []string{"/api/", "/api/none", "/api/guides"} {
		s.stranger().get(path).status(http.StatusNotFound)
	}
	s.signIn(acme, session.Viewer).get("/keys").has(`href="/api"`)
	for _, pages := range [][]string{nil, {"<html></html>"}, {"<style></style>"}, {"<style></style><script></script>", "<style>another</style><script></script>"}} {
		var list []*reference.Page
		for _, page := range pages {
			list = append(list, &reference.Page{HTML: []byte(page)})
		}
		if _, err := loadReference(list, s.console.assets); !errors.Is(err, errReference) {
			t.Errorf("%s: %v", pages, err)
		}
	}
}

// TestSendAgainWhileOff: a repaired receiver can be tried before the webhook is
// turned on.
func TestSendAgainWhileOff(t *testing.T) {
	t.Parallel()
	s := setup(t)
	well, _, _ := s.seed(acme)
	here := "/deliveries/" + s.deliveryOf(well, "succeeded")
	s.turnOff(well, time.Now())
	p := s.signIn(acme, session.Admin)
	p.get(here).status(http.StatusOK).has("Send again")
	p.get(p.post(here+"/send-again", nil).to()).status(http.StatusOK).hasNot("The webhook is off")
	p.get("/audit").has("Sent again")
	s.signIn(acme, session.Viewer).get(here).status(http.StatusOK).hasNot("Send again</button>")
}

// TestTestWithoutDelivery: the page tells when no process delivers.
func TestTestWithoutDelivery(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config) { c.TestTimeout = 200 * time.Millisecond })
	hook := testkit.Must(s.webhooks.Create(t.Context(), acme, delivery.Definition{URL: "https://x.example/", Events: []string{"all"}}))(t)
	s.signIn(acme, session.Admin).post("/webhooks/"+hook.ID+"/test", nil).status(http.StatusOK).has("has no result yet")
}

func TestEventsAndRequests(t *testing.T) {
	t.Parallel()
	s := setup(t)
	values := known(s, acme)
	p := s.signIn(acme, session.Viewer)
	first := p.get("/events?type=invoice.reversed").status(http.StatusOK).has("inv_0036", "inv_0000").hasNot("ch_00")
	if strings.Index(first.body, "inv_0036") > strings.Index(first.body, "inv_0032") {
		t.Error("events are not the newest first")
	}
	today := s.clock.Now().UTC().Format(time.DateOnly)
	yesterday := s.clock.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly)
	p.get("/events?until=" + today).has("inv_0036")
	p.get("/events?until=" + yesterday).has("No event matches")
	event := values.Replace("{event}")
	if to := p.get("/events?about=" + event).to(); to != "/events/"+event {
		t.Errorf("looking for an event leads to %s", to)
	}
	p.get("/events?about=evt_none").status(http.StatusOK).has("No event matches")
	p.get("/events/"+event).status(http.StatusOK).has("no answer within 10 s", "hooks.northwind-accounting.example", "&#34;object_type&#34;")
	for range 60 {
		s.append(acme, "charge.deleted", `{"charge_id":"ch_late"}`)
	}
	older := regexp.MustCompile(`/events\?before=\d+`).FindString(p.get("/events").body)
	p.get(older).status(http.StatusOK).has("inv_0036", "ch_late")

	day := p.get("/requests?range=day").status(http.StatusOK).has("Over the key&#39;s limit (429)", "by hour", "Server errors")
	if !strings.Contains(day.body, "<rect class=\"box stripes\"") {
		t.Error("refused requests are not in the chart")
	}
	p.get("/requests?status=5").has("500").hasNot(`<span class="badge good">200`)
	p.get(values.Replace("/requests/{record}")).status(http.StatusOK).has("Request ID", "/v1/")
	cursor := regexp.MustCompile(`/requests\?cursor=[0-9A-Za-z_-]+`).FindString(p.get("/requests").body)
	p.get(cursor).status(http.StatusOK)
	p.get("/requests?cursor=x").status(http.StatusBadRequest)
	p.get("/audit?cursor=nonsense").status(http.StatusBadRequest)
}
