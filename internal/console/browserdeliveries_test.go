//go:build outside

package console

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
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
	b.until("the zone is named", `document.querySelector("label.moment").innerText.includes("your time")`)
	script[bool](b, `((e) => {
		const at = new Date(Date.now() - 10 * 60000);
		e.value = new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
		return e.dispatchEvent(new Event("input"));
	})(document.querySelector("label.moment input"))`)
	b.do(chromedp.Click(`.filters button`))
	b.until("only those of ten minutes", `document.readyState === "complete" && /from=[^&]*Z/.test(location.search) && [2, 3].includes(document.querySelectorAll("#live tbody tr").length)`)
}
