//go:build outside

package console

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestDeliverySearchInTheBrowser searches a webhook's deliveries by a number and by a time,
// which is the reader's own, and goes through their pages.
func TestDeliverySearchInTheBrowser(t *testing.T) {
	t.Parallel()
	s := setup(t)
	well, _, _ := s.seed(acme)
	b := s.enter(acme, session.Viewer)
	b.visit("/webhooks/" + well)
	b.sees("1–25 of 40")
	b.press("Older")
	b.sees("26–40 of 40")
	b.press("Newer")
	b.sees("1–25 of 40")
	b.write(`input[name="about"]`, "2026-0004")
	b.press("Filter")
	b.all("the deliveries of one invoice", "#live tbody tr", `(r) => r.innerText.includes("2026-0004")`, "about=2026-0004", "from=", "to=")
	b.sees("1 delivery")
	b.judge("deliveries that were searched for")
	b.picture("webhook-searched")
	b.press("Show all")
	b.sees("1–25 of 40")
	script[bool](b, `((e) => {
		const at = new Date(Date.now() - 10 * 60000);
		e.value = new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
		return e.dispatchEvent(new Event("input"));
	})(document.querySelector("label.moment input"))`)
	b.do(chromedp.Click(`.filters button`))
	b.until("only those of ten minutes", `document.readyState === "complete" && /from=[^&]*Z/.test(location.search) && [2, 3].includes(document.querySelectorAll("#live tbody tr").length)`)
}

// TestSendSeveralAgainInTheBrowser chooses failed deliveries, which a list that renews itself
// keeps, and sends them again.
func TestSendSeveralAgainInTheBrowser(t *testing.T) {
	t.Parallel()
	s := setup(t)
	well, _, _ := s.seed(acme)
	b := s.enter(acme, session.Admin)
	b.visit("/webhooks/" + well)
	b.judge("a list to choose from")
	b.choose("state", "failed")
	b.press("Filter")
	b.until("five can be chosen", `location.search.includes("state=failed") && document.querySelectorAll("#live input[type=checkbox]").length === 5`)
	b.do(chromedp.Click(`#live tbody tr:nth-child(1) input`), chromedp.Click(`#live tbody tr:nth-child(3) input`))
	script[bool](b, `(window.held = 0, document.body.addEventListener("htmx:beforeRequest", (event) => { if (event.defaultPrevented) window.held++; }), true)`)
	b.until("the list does not renew itself meanwhile", `window.held > 0 && document.querySelectorAll("#live input:checked").length === 2`)
	b.picture("webhook-chosen")
	b.press("Send selected again")
	b.sees("The deliveries that you selected are being sent again.")
	b.until("three are left", `document.querySelectorAll("#live tbody tr").length === 3`)
	b.press("Audit")
	b.sees("2 deliveries")
}

// TestRetryNowInTheBrowser tries a pending delivery before its time, and sees it arrive.
func TestRetryNowInTheBrowser(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var broken atomic.Bool
	broken.Store(true)
	r := s.receiver(func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	testkit.Must(s.webhooks.Create(t.Context(), acme, delivery.Definition{URL: r.URL, Events: []string{delivery.AllEvents}}))(t)
	s.deliver()
	s.append(acme, "invoice.reversed", `{"invoice_id":"inv_9"}`)
	b := s.enter(acme, session.Admin)
	hook := testkit.Must(s.webhooks.List(t.Context(), acme))(t)[0]
	b.visit("/webhooks/" + hook.ID)
	b.lists("502")
	b.press("invoice.reversed")
	b.sees("Try again now")
	b.judge("a pending delivery")
	b.picture("delivery-retry")
	broken.Store(false)
	b.press("Try again now")
	b.sees("2 attempts")
	b.sees("200 OK")
}
