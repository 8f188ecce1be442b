//go:build outside

package console

import (
	"strconv"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
)

// TestEventSearchInTheBrowser finds events by client, invoice, object and id.
func TestEventSearchInTheBrowser(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.seed(acme)
	b := s.enter(acme, session.Viewer)
	for about, rows := range map[string]int{"cl_harbour": 20, "2026-0004": 1, "inv_0008": 1, "te_0003": 1} {
		b.visit("/events")
		b.write(`input[name="about"]`, about)
		b.press("Filter")
		b.all("events about "+about, "#live tbody tr", `(r, i, all) => r.innerHTML.includes(`+quoted(about)+`) && all.length === `+strconv.Itoa(rows), "about="+about)
	}
	b.visit("/events?about=cl_harbour")
	b.judge("events that were searched for")
	b.picture("events-searched")
	b.visit("/events")
	b.write(`input[name="about"]`, "cl_unknown")
	b.press("Filter")
	b.sees("No event matches.")
	b.visit("/events")
	id := script[string](b, `document.querySelector("#live tbody th a").id.slice(2)`)
	b.write(`input[name="about"]`, id)
	b.press("Filter")
	b.until("the event itself", `location.pathname === "/events/`+id+`"`)
}

// TestAnEventInTheBrowser looks at what an event changed and at what a reader gets now.
func TestAnEventInTheBrowser(t *testing.T) {
	t.Parallel()
	s := setup(t)
	add := s.projecting()
	add("client.recorded", time.Time{}, `{"client_id":"cl_1","name":"Northwind Clinic"}`)
	add("invoice.recorded", time.Time{}, invoiceOf)
	add("time_entry.recorded", time.Time{}, timeEntryOf)
	add("time_entry.approved", time.Time{}, `{"time_entry_id":"te_1"}`)
	add("invoice.issued", time.Time{}, `{"invoice_id":"in_1","invoice_number":"D-1","amount":"1275.71"}`)
	sent := "/events/" + add("invoice.sent", time.Time{}, `{"invoice_id":"in_1"}`)
	gone := "/events/" + add("time_entry.deleted", time.Time{}, `{"time_entry_id":"te_1"}`)
	brought := "/events/" + add("payout.paid", time.Time{}, `{"payment_id":"pm_1","invoice_id":"in_1","contractor_id":"co_1","amount":"998.59","currency":"EUR","source":"bank"}`)
	b := s.enter(acme, session.Admin)
	for _, a := range []appearance{{"light", 1280, "light"}, {"dark", 1280, "dark"}, {"small", 360, "light"}} {
		b.appear(a)
		b.visit(sent)
		b.sees("Also changed: 1 time entry.")
		b.sees("ready to send")
		b.sees(`"margin_amount": "277.12"`)
		b.fits("an event, " + a.name)
		b.judge("an event, " + a.name)
		b.picture("event-changed-" + a.name)
		b.visit(gone)
		b.sees("The object was removed")
		b.fits("a removed object, " + a.name)
		b.judge("a removed object, " + a.name)
		b.picture("event-removed-" + a.name)
	}
	viewer := s.enter(acme, session.Viewer)
	viewer.visit(brought)
	viewer.sees("There is nothing at this address")
	viewer.judge("an event about pay")
}

// TestTypesBreakAtTheDot: where a column is narrow, a type of event takes two lines, and no
// word of it is broken.
func TestTypesBreakAtTheDot(t *testing.T) {
	t.Parallel()
	s := setup(t)
	well, _, _ := s.seed(acme)
	b := s.enter(acme, session.Viewer)
	for _, a := range []appearance{{"desktop", 1280, "light"}, {"laptop", 1024, "light"}, {"narrow", 900, "light"}, {"small", 360, "light"}} {
		b.appear(a)
		for _, path := range []string{"/webhooks/" + well, "/events"} {
			b.visit(path)
			b.until("each word is on one line", `((links) => links.length > 10 && links.every((link) => {
				const words = document.createRange();
				return [...link.childNodes].filter((n) => n.nodeType === Node.TEXT_NODE && n.data.trim()).every((n) => { words.selectNodeContents(n); return words.getClientRects().length === 1; });
			}))([...document.querySelectorAll("#live tbody th > a")])`)
		}
	}
}

// TestFailingNoticeInTheBrowser reads why a webhook is failing and when it is turned off.
func TestFailingNoticeInTheBrowser(t *testing.T) {
	t.Parallel()
	s := setup(t)
	well, _, _ := s.seed(acme)
	s.waiting(well)
	s.turnsOffSoon(well)
	b := s.enter(acme, session.Viewer)
	b.visit("/webhooks/" + well)
	b.sees("The last attempt: no answer within 10 s.")
	b.until("the date, in the reader's zone", `/It is turned off by .*\d.*[AP]M/.test(document.querySelector(".notice.warn").innerText)`)
	b.judge("a webhook that is failing")
	b.picture("webhook-failing-notice")
}
