package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
)

// anomaly makes entries of a type anomalies, and returns the position of the last.
func (s *bundle) anomaly(workspace, typ, data string, reason domain.Reason, n int) (last int64) {
	s.t.Helper()
	for range n {
		id := s.append(workspace, typ, data)
		err := s.pool.QueryRow(s.t.Context(), `
			INSERT INTO anomaly (workspace_id, position, reason, event_id)
			SELECT workspace_id, position, $2, id FROM event_log WHERE workspace_id = $1 AND id = $3 RETURNING position`, workspace, string(reason), id).Scan(&last)
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return last
}

const (
	reversed  = `{"invoice_id":"inv_none"}`
	paid      = `{"payment_id":"pay_7","contractor_id":"co_9","amount":"4242.42","currency":"EUR","source":"bank"}`
	toPayroll = `{"invoice_id":"inv_payroll"}`
	waits     = "some are waiting for review"
)

// TestAnomalies: they are grouped, listed and shown; an admin acknowledges those that
// were on the page, and the menu's mark goes with the last one.
func TestAnomalies(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.signIn(acme, session.Admin)
	p.get("/anomalies").status(http.StatusOK).has("No anomalies to review").hasNot(waits)
	s.clock.Advance(time.Minute)
	last := s.anomaly(acme, "invoice.reversed", reversed, domain.UnknownObject, 3)
	s.anomaly(acme, "charge.deleted", `{"charge_id":"ch_none"}`, domain.Repeat, 1)
	p.get("/keys").has(waits)
	p.get("/anomalies").status(http.StatusOK).has("Unknown object", "invoice.reversed", ">3<", "Repeated ID", "charge.deleted",
		"append the missing object first. Then append this entry again with a new ID.", "that needs an ID of its own.")
	group := "/anomalies/unknown_object/invoice.reversed"
	page := p.get(group).status(http.StatusOK).has("<h1>Unknown object", "The entry is about something that does not exist in this workspace", "inv_none", "Acknowledge 3 entries",
		fmt.Sprintf(`name="up_to" value="%d"`, last))

	// What comes after the page was shown is not acknowledged with it.
	newer := s.anomaly(acme, "invoice.reversed", reversed, domain.UnknownObject, 1)
	sent := url.Values{"up_to": {fmt.Sprint(last)}, "note": {"The producer <knows>"}}
	p.post(group, url.Values{"up_to": {fmt.Sprint(last)}, "note": {""}}).status(http.StatusUnprocessableEntity).has("The note has 0 bytes")
	p.post(group, url.Values{"note": {"x"}}).status(http.StatusBadRequest)
	if to := p.post(group, sent).to(); to != "/anomalies?did=acknowledged" {
		t.Errorf("it leads to %s", to)
	}
	p.get(group).has("Acknowledge 1 entry", "4 entries", "The producer &lt;knows&gt;")
	at := fmt.Sprintf("/anomalies/at/%d", last)
	p.get(at).status(http.StatusOK).has("admin@acme.example", "The producer &lt;knows&gt;", "inv_none", "<h2>Unknown object</h2>", "ledgerfeed anomaly show acme").hasNot("Acknowledge</button>")
	p.get("/audit").has("Acknowledged anomalies", "unknown_object", "3: The producer &lt;knows&gt;", "admin@acme.example")

	one := fmt.Sprintf("/anomalies/at/%d", newer)
	p.get(one).has("Acknowledge</button>")
	p.post(one, url.Values{"note": {strings.Repeat("x", 1001)}}).status(http.StatusUnprocessableEntity).has("The note has 1001 bytes")
	p.get(p.post(one, url.Values{"note": {"seen"}}).to()).has("Acknowledged.", "seen").hasNot("Acknowledge</button>")
	p.get(group).has("All are acknowledged")
	p.get("/keys").has(waits) // the other group
	p.post("/anomalies/repeat/charge.deleted", url.Values{"up_to": {"100"}, "note": {"seen"}}).to()
	p.get("/keys").hasNot(waits)
	p.get("/anomalies").has("No anomalies to review").hasNot("invoice.reversed")
	p.get("/anomalies?all=1").has("invoice.reversed", "charge.deleted")
	for _, path := range []string{"/anomalies/none/invoice.reversed", "/anomalies/unknown_object/none", "/anomalies/at/none", "/anomalies/at/999"} {
		p.get(path).status(http.StatusNotFound)
	}
	p.get(group + "?before=x").status(http.StatusBadRequest)
	page.hasNot("<script>")
}

// TestAnomaliesOfPay: a viewer, who cannot make a key with pay:read, finds nothing of
// anomalies about what contractors are paid, on no page; an admin does, and nobody is
// shown amounts.
func TestAnomaliesOfPay(t *testing.T) {
	t.Parallel()
	s := setup(t)
	payout := s.anomaly(acme, domain.TypePayoutPaid, paid, domain.UnknownObject, 1)
	s.anomaly(acme, "payout.sent_to_payroll", toPayroll, domain.UnknownObject, 1)
	// An entry of a type that only a newer version knows may be about pay, too.
	s.anomaly(acme, "invoice.reversed", reversed, domain.Unreadable, 1)
	s.exec(`ALTER TABLE event_log DISABLE TRIGGER USER`)
	s.exec(`UPDATE event_log SET type = 'bonus.paid' WHERE position = 3`)
	viewer, admin := s.signIn(acme, session.Viewer), s.signIn(acme, session.Admin)
	hidden := []string{"payout", "bonus", "pay_7", "co_9", "inv_payroll", "4242"}
	for _, path := range []string{"/anomalies", "/anomalies?all=1"} {
		viewer.get(path).status(http.StatusOK).has("No anomalies").hasNot(waits).hasNot(hidden...)
		admin.get(path).status(http.StatusOK).has("payout.paid", "payout.sent_to_payroll", "bonus.paid", waits).hasNot("4242")
	}
	at := fmt.Sprintf("/anomalies/at/%d", payout)
	for _, path := range []string{"/anomalies/unknown_object/payout.paid", "/anomalies/unknown_object/payout.sent_to_payroll", "/anomalies/unreadable/bonus.paid", at, "/anomalies/at/3"} {
		viewer.get(path).status(http.StatusNotFound).hasNot(hidden...)
		admin.get(path).status(http.StatusOK).hasNot("4242")
	}
	admin.post("/anomalies/unknown_object/payout.paid", url.Values{"up_to": {"100"}, "note": {"looked at"}}).to()
	viewer.get("/audit").has("Acknowledged anomalies").hasNot(hidden...)
	charged := strings.ReplaceAll(`{"charge_id":"ch_9","client_id":"cl_1","date":"2026-10-02","category":"fee","kind":"service_fee","billed_to_client":false,"amount":"4242.00","currency":"EUR","period":"2026-10"}`, "ch_9", "pay_7")
	s.anomaly(acme, "charge.created", charged, domain.Repeat, 1)
	own := s.anomaly(acme, "charge.deleted", `{"charge_id":"pay_7","billed_to_client":false}`, domain.UnknownObject, 1)
	for _, path := range []string{"/anomalies/repeat/charge.created", "/anomalies/unknown_object/charge.deleted", fmt.Sprintf("/anomalies/at/%d", own)} {
		viewer.get(path).status(http.StatusNotFound).hasNot(hidden...)
		admin.get(path).status(http.StatusOK).has("pay_7").hasNot("4242")
	}
	viewer.get("/anomalies").hasNot(hidden...)
	// What is about no pay is there for both.
	s.anomaly(acme, "charge.deleted", `{"charge_id":"ch_none"}`, domain.UnknownObject, 1)
	s.clock.Advance(time.Minute)
	viewer.get("/keys").has(waits)
	viewer.get("/anomalies/unknown_object/charge.deleted").status(http.StatusOK).has("ch_none", "1 entry is waiting for an admin to review")
}

// TestAnomaliesByPages: the pages of a group have each of its entries once, and none of
// another group or workspace.
func TestAnomaliesByPages(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const n = 125
	for i := range n {
		s.anomaly(acme, "charge.deleted", fmt.Sprintf(`{"charge_id":"ch_%d"}`, i), domain.UnknownObject, 1)
		if i%10 == 0 {
			s.anomaly(acme, "invoice.reversed", reversed, domain.UnknownObject, 1)
			s.anomaly(beta, "charge.deleted", `{"charge_id":"ch_beta"}`, domain.UnknownObject, 1)
		}
	}
	p := s.signIn(acme, session.Viewer)
	seen, pages := map[string]int{}, 0
	for path := "/anomalies/unknown_object/charge.deleted"; path != ""; pages++ {
		a := p.get(path).status(http.StatusOK).hasNot("inv_none", "ch_beta")
		for _, part := range strings.Split(a.body, `<code class="break">`)[1:] {
			id, _, _ := strings.Cut(part, "<")
			seen[id]++
		}
		path = ""
		if _, rest, more := strings.Cut(a.body, `?before=`); more {
			before, _, _ := strings.Cut(rest, `"`)
			path = "/anomalies/unknown_object/charge.deleted?before=" + before
		}
	}
	if len(seen) != n || pages != 3 {
		t.Errorf("%d entries on %d pages, want %d on 3", len(seen), pages, n)
	}
	for id, times := range seen {
		if times != 1 {
			t.Errorf("%s is listed %d times", id, times)
		}
	}
}
