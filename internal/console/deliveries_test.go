package console

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// manyEvents appends n events of invoices.
func (s *bundle) manyEvents(workspace string, n int) {
	s.t.Helper()
	for done := 0; done < n; {
		var drafts []domain.Draft
		for ; done < n && len(drafts) < 1000; done++ {
			drafts = append(drafts, testkit.Must(domain.NewDraft(workspace, "invoice.reversed", fmt.Appendf(nil,
				`{"invoice_id":"inv_many_%d","invoice_number":"2027-%d","client_id":"cl_harbour","period":"2026-11"}`, done, done)))(s.t))
		}
		testkit.Must(s.log.Append(s.t.Context(), drafts...))(s.t)
	}
	s.show(s.t.Context())
}

// waiting is a delivery that waits for its next attempt in 25 minutes, of those that seed has
// made pending.
func (s *bundle) waiting(webhookID string) (deliveryID string) {
	s.t.Helper()
	s.exec(`INSERT INTO webhook_waiting (workspace_id, webhook_id, position, created_at, attempts, next_attempt_at, epoch)
		SELECT workspace_id, webhook_id, position, created_at, 2, next_attempt_at, 1 FROM webhook_delivery
		 WHERE webhook_id = $1 AND state = 'pending' AND jsonb_array_length(attempts) = 2 ON CONFLICT DO NOTHING`, webhookID)
	var event string
	err := s.pool.QueryRow(s.t.Context(), `
		SELECT d.event_id FROM webhook_delivery d JOIN webhook_waiting q USING (workspace_id, webhook_id, position)
		 WHERE webhook_id = $1 AND NOT q.once ORDER BY position LIMIT 1`, webhookID).Scan(&event)
	if err != nil {
		s.t.Fatal(err)
	}
	return event + "_" + webhookID
}

// link finds the address of a link on a page by its text.
func (a *reply) link(text string) string {
	a.t.Helper()
	found := regexp.MustCompile(`href="([^"]+)">` + regexp.QuoteMeta(text) + `</a>`).FindStringSubmatch(a.body)
	if found == nil {
		a.t.Fatalf("%s: no link %q\n%s", a.Request.URL, text, a.body)
	}
	return strings.ReplaceAll(found[1], "&amp;", "&")
}

// TestDeliveriesAreSearched searches by what a delivery is about and when it was sent, and
// goes through the pages both ways.
func TestDeliveriesAreSearched(t *testing.T) {
	t.Parallel()
	s := setup(t)
	well, _, _ := s.seed(acme)
	here := "/webhooks/" + well
	p := s.signIn(acme, session.Viewer)
	first := p.get(here).status(http.StatusOK).has("1–25 of 40").hasNot("Newer", "Newest")
	second := p.get(first.link("Older")).status(http.StatusOK).has("26–40 of 40", "Newest")
	if back := p.get(second.link("Newer")).status(http.StatusOK).has("1–25 of 40"); strings.Contains(back.body, "Newer") {
		t.Error("there is a newer page than the first")
	}
	for _, about := range []string{"2026-0004", "inv_0004"} {
		found := p.get(here+"?about="+about).status(http.StatusOK).has("2026-0004", "1 delivery", `value="`+about+`"`).hasNot("2026-0008", "Pause updates")
		event := strings.SplitN(regexp.MustCompile(`/deliveries/([^"]+)`).FindStringSubmatch(found.body)[1], "_wh_", 2)[0]
		p.get(here+"?about="+event).status(http.StatusOK).has("2026-0004", "1 delivery").hasNot("2026-0008")
	}
	p.get(here + "?about=%00").status(http.StatusBadRequest)
	p.get(here + "?about=2026-0004&state=failed").status(http.StatusOK).hasNot(`href="/deliveries/`)
	moment := func(ago time.Duration) string {
		return url.QueryEscape(s.clock.Now().Add(-ago).UTC().Format("2006-01-02T15:04:05"))
	}
	// Positions 40, 39, 38 were sent 4, 8 and 12 minutes ago.
	p.get(here+"?from="+moment(10*time.Minute)).status(http.StatusOK).has("1–2 of 2", `<label class="moment">From <input`)
	p.get(here+"?from="+moment(10*time.Minute)+"&to="+moment(6*time.Minute)).status(http.StatusOK).has("1–1 of 1", "te_0038").hasNot("te_0039")
	p.get(here + "?from=yesterday").status(http.StatusOK).has("1–25 of 40")
}

// TestSendSeveralAgain chooses deliveries on a page, as a browser without scripts does, and
// tries a pending one now. A viewer is offered neither.
func TestSendSeveralAgain(t *testing.T) {
	t.Parallel()
	s := setup(t)
	well, _, _ := s.seed(acme)
	here := "/webhooks/" + well
	p, viewer := s.signIn(acme, session.Admin), s.signIn(acme, session.Viewer)
	viewer.get(here+"?state=failed").status(http.StatusOK).hasNot("checkbox", "send-again")
	page := p.get(here+"?state=failed&cursor=").status(http.StatusOK).has("Send selected again", `aria-label="Select`)
	form := url.Values{"back": {here + "?state=failed"}}
	for _, found := range regexp.MustCompile(`name="delivery" value="([^"]+)"`).FindAllStringSubmatch(page.body, -1) {
		form.Add("delivery", found[1])
	}
	if n := len(form["delivery"]); n != 5 {
		t.Fatalf("%d can be chosen", n)
	}
	viewer.post(here+"/send-again", form).status(http.StatusForbidden)
	again := p.post(here+"/send-again", form).to()
	p.get(again).status(http.StatusOK).has("The deliveries that you selected are being sent again.", `<option selected>failed`).hasNot(`href="/deliveries/`)
	p.get(p.post(here+"/send-again", form).to()).has("Nothing was sent again")
	form.Add("delivery", s.deliveryOf(well, "succeeded"))
	s.exec(`UPDATE webhook_delivery SET state = 'failed' WHERE webhook_id = $1 AND position = 13`, well)
	p.get(p.post(here+"/send-again", form).to()).has("Of the deliveries that you selected")
	p.get("/audit").has("5 deliveries", "Sent again", "1 delivery")
	p.post(here+"/send-again", url.Values{"delivery": {"evt_1_wh_of-another"}}).status(http.StatusNotFound)
	s.signIn(beta, session.Admin).post(here+"/send-again", form).status(http.StatusNotFound)

	one := "/deliveries/" + s.waiting(well)
	viewer.get(one).status(http.StatusOK).has("next attempt").hasNot("Try again now")
	viewer.post(one+"/retry", nil).status(http.StatusForbidden)
	p.get(one).status(http.StatusOK).has("Try again now")
	p.get(p.post(one+"/retry", nil).to()).status(http.StatusOK).has("The next attempt is being made now.").hasNot("Try again now</button>")
	p.post(one+"/retry", nil).status(http.StatusConflict).has("It is being sent")
	p.post("/deliveries/"+s.deliveryOf(well, "succeeded")+"/retry", nil).status(http.StatusConflict).has("It has finished")
	p.get("/audit").has("Tried again before its time")
}

// turnsOffSoon lets a webhook have failed for so long that its next retries turn it off.
func (s *bundle) turnsOffSoon(well string) {
	s.t.Helper()
	s.exec(`UPDATE webhook SET failures = '{"events":[1000000]}',
		failing_since = $2::timestamptz - interval '71 hours 50 minutes' WHERE webhook_id = $1`, well, s.clock.Now())
}

// TestFailingNotice has the last answer, and a date only when one will come.
func TestFailingNotice(t *testing.T) {
	t.Parallel()
	s := setup(t)
	well, _, _ := s.seed(acme)
	s.exec(`UPDATE webhook SET failing_since = $2 WHERE webhook_id = $1`, well, s.clock.Now().Add(-10*time.Hour))
	p := s.signIn(acme, session.Viewer)
	p.get("/webhooks/"+well).status(http.StatusOK).has("The last attempt: no answer within 10 s.", "No retries are left. Nothing is sent until the next event").hasNot("is turned off by <")
	s.waiting(well)
	p.get("/webhooks/"+well).has("The last retry is <time", "count as failed. Once the receiver works again, send them from here.", "nothing succeeds for 3 days.").hasNot("is turned off by <")
	s.turnsOffSoon(well)
	p.get("/webhooks/"+well).has("It is turned off by <time", "unless a message succeeds", "3 messages wait for another attempt.").hasNot("Send again what failed or waits")
	s.signIn(acme, session.Admin).get("/webhooks/" + well).has(`href="/webhooks/` + well + `/missed">Send again what failed or waits`)
}

// TestEventsAreSearched finds events by every id that they name, and says so when only the
// newest part was searched.
func TestEventsAreSearched(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.seed(acme)
	p := s.signIn(acme, session.Viewer)
	for _, about := range []string{"inv_0004", "2026-0004"} {
		p.get("/events?about="+about).status(http.StatusOK).has("inv_0004").hasNot("inv_0008", "Pause updates", "Only events back to")
	}
	p.get("/events?about=cl_harbour&type=charge.deleted").status(http.StatusOK).has("ch_0001", "ch_0037").hasNot("inv_0004")
	p.get("/events?about=nothing").status(http.StatusOK).has("No event matches")
	s.manyEvents(acme, eventlog.SearchWindow+10)
	page := p.get("/events?about=inv_0004").status(http.StatusOK).has("Only events back to", "Search further back").hasNot("2026-0004")
	p.get(page.link("Search further back")).status(http.StatusOK).has("2026-0004").hasNot("Search further back")
}

// TestPositionOfADelivery: the page of a delivery shows the position that its messages carry.
func TestPositionOfADelivery(t *testing.T) {
	t.Parallel()
	s := setup(t)
	well, _, _ := s.seed(acme)
	id := s.deliveryOf(well, "succeeded")
	position := testkit.Must(s.webhooks.Delivery(t.Context(), id))(t).Position
	s.signIn(acme, session.Viewer).get("/deliveries/" + id).status(http.StatusOK).has(fmt.Sprintf(`<th scope="row">SERVICE-Log-Position</th><td>%d</td>`, position))
}
