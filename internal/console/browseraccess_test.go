//go:build outside

package console

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// reach presses Tab until an expression is true for the focused element, and checks
// that the focus is visible there.
func (b *tab) reach(what, expression string) {
	b.t.Helper()
	for range 60 {
		b.do(chromedp.KeyEvent(kb.Tab))
		if script[bool](b, expression) {
			if script[string](b, `getComputedStyle(document.activeElement).outlineStyle`) == "none" {
				b.t.Errorf("the focus on %s cannot be seen", what)
			}
			return
		}
	}
	b.t.Fatalf("%s cannot be reached with the keyboard", what)
}

// enterOn presses Enter on the link or button with a name.
func (b *tab) enterOn(name string) {
	b.t.Helper()
	b.reach(name, fmt.Sprintf(`document.activeElement.innerText.trim() === %s`, quoted(name)))
	b.do(chromedp.KeyEvent(kb.Enter))
}

// TestBrowserKeyboardAlone makes a key, adds a webhook and deletes it without a mouse.
func TestBrowserKeyboardAlone(t *testing.T) {
	t.Parallel()
	s := setup(t)
	b := s.enter(acme, session.Admin)
	b.visit("/keys/new")
	b.reach("skip", `document.activeElement.matches(".skip")`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.reach("the name", `document.activeElement.id === "name"`)
	b.do(chromedp.KeyEvent("Nightly report"))
	b.reach("a permission", `document.activeElement.value === "events:read"`)
	b.do(chromedp.KeyEvent(" "))
	b.enterOn("Create key")
	b.sees("It is shown only once")
	b.reach("the copy button", `document.activeElement.matches(".copy")`)
	b.enterOn("I have saved it")
	b.sees("Nightly report")

	b.enterOn("Webhooks")
	b.sees("No webhooks yet")
	b.enterOn("Add the first webhook")
	b.sees("It starts with https://")
	b.reach("the address", `document.activeElement.id === "address"`)
	b.do(chromedp.KeyEvent("https://127.0.0.1:9/in"))
	b.reach("the choice of events", `document.activeElement.name === "choice"`)
	b.do(chromedp.KeyEvent(kb.ArrowDown))
	b.reach("an event type", `document.activeElement.value === "invoice.paid"`)
	b.do(chromedp.KeyEvent(" "))
	b.enterOn("Add webhook")
	b.sees("Signing secret")
	b.reach("Python", `document.activeElement.innerText === "Python"`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.sees("hmac.compare_digest")
	b.enterOn("I have saved it")
	b.sees("Recent deliveries")
	b.reach("the filter", `document.activeElement.name === "state"`)
	hook := testkit.Must(s.webhooks.List(t.Context(), acme))(t)[0]
	b.visit("/webhooks/" + hook.ID)
	b.enterOn("Delete")
	b.sees("This cannot be undone")
	b.enterOn("Delete webhook")
	b.sees("The webhook was deleted")
}

// TestEveryFocusIsSeen focuses every element that can be focused on every page.
func TestEveryFocusIsSeen(t *testing.T) {
	t.Parallel()
	s := setup(t)
	well, _, off := s.seed(acme)
	b := s.enter(acme, session.Admin)
	for _, path := range []string{
		"/keys", "/keys/new", "/webhooks", "/webhooks/new", "/webhooks/" + well, "/webhooks/" + off, "/webhooks/" + well + "/missed",
		"/deliveries/" + s.deliveryOf(well, "failed"), "/events", "/data", "/requests", "/audit",
	} {
		b.visit(path)
		unseen := script[string](b, `[...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary, [tabindex='0']")]
			.filter((e) => e.checkVisibility())
			.filter((e) => { e.focus({focusVisible: true}); return document.activeElement !== e || getComputedStyle(e).outlineStyle === "none" || getComputedStyle(e).outlineWidth !== "3px"; })
			.map((e) => e.outerHTML.slice(0, 120)).join("\n")`)
		if unseen != "" {
			t.Errorf("%s: the focus is not seen on\n%s", path, unseen)
		}
	}
}

// TestBrowserWithoutScripts does what people do, with scripts turned off.
func TestBrowserWithoutScripts(t *testing.T) {
	t.Parallel()
	s := setup(t)
	well, _, off := s.seed(acme)
	b := s.open()
	b.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	b.visit(s.link(session.Link{WorkspaceID: acme}))
	b.press("Sign in")
	b.sees("Webhooks")
	b.visit("/webhooks/" + well)
	b.sees("Times are in UTC.")
	b.fits("a webhook without scripts")
	b.picture("webhook-without-scripts")
	b.press("Older")
	b.until("the next page", `location.search.includes("cursor=")`)
	b.press("Newest")
	b.until("the first page", `!location.search.includes("cursor=")`)

	b.visit("/keys/new")
	b.write("#name", "By hand")
	b.do(chromedp.Click(`input[value="events:read"]`))
	b.press("Create key")
	b.sees("It is shown only once")
	b.press("I have saved it")
	b.press("By hand")
	b.press("Revoke")
	b.press("Revoke “By hand”")
	b.sees("The key was revoked")

	b.visit("/webhooks/new")
	b.write("#address", "https://127.0.0.1:9/in")
	b.press("Only these")
	b.do(chromedp.Click(`input[value="invoice.paid"]`))
	b.press("Add webhook")
	b.sees("It is shown only once")
	b.press("PHP")
	b.sees("hash_equals")

	s.append(acme, "invoice.reversed", `{"invoice_id":"inv_late"}`)
	s.exec(`UPDATE webhook SET events = NULL WHERE webhook_id = $1`, off)
	b.visit("/webhooks/" + off)
	b.press("Turn back on")
	b.sees("events were missed since")
	b.press("Send 41 missed events")
	b.sees("The missed events are being sent")
	b.press("Sign out")
	b.sees("You are signed out")
}
