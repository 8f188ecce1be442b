//go:build outside

package console

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// tallPages may be higher than 3,000 px, with the reason.
func tallPages() map[string]int {
	return map[string]int{
		"/api/invoices": 4000, // an invoice has 36 fields, which readers compare and search on one page
	}
}

// TestBrowserReference: axe finds nothing on any page of the reference, and none is high without a
// reason.
func TestBrowserReference(t *testing.T) {
	t.Parallel()
	s := setup(t)
	b := s.open()
	for _, a := range []appearance{{"light", 1280, "light"}, {"dark", 1280, "dark"}, {"small", 360, "light"}} {
		paths := slices.Sorted(maps.Keys(s.console.reference))
		if a.name != "light" && !testkit.Full() {
			paths = []string{"/api", "/api/invoices", "/api/guides/changing-keys"}
		}
		b.appear(a)
		for _, path := range paths {
			b.visit(path)
			b.judge(path + ", " + a.name)
			b.picture("reference" + strings.ReplaceAll(strings.TrimPrefix(path, "/api"), "/", "-") + "-" + a.name)
			height := script[int](b, `document.documentElement.scrollHeight`)
			if most := max(3000, tallPages()[path]); a.name != "small" && height > most {
				t.Errorf("%s is %d px high, at most %d are allowed", path, height, most)
			}
			folded := script[bool](b, `document.querySelector("nav summary").checkVisibility() && !document.querySelector("nav li a").checkVisibility()`)
			if folded != (a.name == "small") {
				t.Errorf("%s, %s: the contents are folded: %v", path, a.name, folded)
			}
		}
	}
}

// TestBrowserReferenceSearch: every page can be found from every page, addresses from when all was one
// page lead to the new ones, and the pages are whole without scripts.
func TestBrowserReferenceSearch(t *testing.T) {
	t.Parallel()
	s := setup(t)
	b := s.open()
	b.visit("/api/guides/pages")
	b.write("#words", "net_due")
	b.until("the field is found first", `document.querySelector("#found a")?.hash === "#object-invoice.net_due"`)
	b.judge("reference, searched")
	b.do(chromedp.KeyEvent(kb.Enter))
	shown := `location.pathname === "/api/invoices" && location.hash === "#object-invoice.net_due" && document.querySelector(":target").getBoundingClientRect().top >= 0`
	b.until("the field is shown", shown)
	b.write("#words", "spreadsheet")
	b.until("a word in the text of a guide is found", `document.querySelector("#found a")?.pathname === "/api/guides/whole-lists"`)
	b.write("#words", "cursor")
	b.until("headings come before fields", `document.querySelector("#found a")?.hash === "#cursors"`)
	b.write("#words", "nothing has these words")
	b.sees("Nothing has these words.")
	b.write("#words", " ")
	b.press("Events")
	b.until("the menu marks it", `location.pathname === "/api/events" && document.querySelector("nav li [aria-current=page]")?.innerText === "Events"`)

	for old, now := range map[string]string{
		"#object-invoice.net_due": "/api/invoices#object-invoice.net_due", "#whole-lists": "/api/guides/whole-lists", "#getClientCredit": "/api/credits#getClientCredit",
		"#event-invoice.paid": "/api/event-types#event-invoice.paid", "#error-429": "/api/errors#error-429", "#webhooks": "/api#webhooks",
	} {
		b.visit("/sign-in")
		b.visit("/api" + old)
		b.until(old+" leads to "+now, "location.pathname + location.hash === "+quoted(now))
	}
	b.visit("/api/invoices#listInvoices.cursor")
	b.until("what was folded is open", `document.querySelector(":target").checkVisibility() && document.querySelector(":target").closest("details").open`)

	b.appear(appearance{"small", 360, "light"})
	b.press("Contents")
	b.until("the contents are unfolded", `document.querySelector("nav li a").checkVisibility()`)
	b.judge("reference, unfolded")
	b.appear(appearance{"light", 1280, "light"})

	b.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	b.visit("/sign-in")
	b.visit("/api/invoices#getInvoice")
	b.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: false}))
	b.until("the operation is there", `document.querySelector("#getInvoice [data-language=Go] code").textContent.includes("func main()")`)
	if script[bool](b, `document.querySelector("#search").checkVisibility()`) {
		t.Error("a search that needs a script is shown without one")
	}
	if !script[bool](b, `document.querySelector("nav [aria-current=page]").checkVisibility()`) {
		t.Error("the menu needs a script")
	}
}
