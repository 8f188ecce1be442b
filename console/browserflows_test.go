//go:build outside

package console

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestKeyInTheBrowser makes, copies, rotates and revokes a key.
func TestKeyInTheBrowser(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	b := s.enter(acme, Admin)
	b.press("API keys")
	b.press("Create the first key")
	b.sees("What will use it")
	b.write("#name", "Payroll export")
	b.do(chromedp.Click(`input[value="invoices:read"]`), chromedp.Click(`input[value="margin:read"]`))
	b.until("pay:read is switched on", `document.querySelector('input[value="pay:read"]').checked`)
	b.do(chromedp.Click(`input[value="pay:read"]`))
	b.until("margin:read went with it", `!document.querySelector('input[value="margin:read"]').checked`)
	b.do(chromedp.Click(`input[value="margin:read"]`))
	b.press("Create key")
	b.sees("It is shown this once")
	secret := script[string](b, `document.querySelector("#secret").textContent`)
	b.judge("a new key")
	b.picture("key-shown")
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		b.do(call(browser.SetPermission, browser.SetPermissionParams{
			Permission: &browser.PermissionDescriptor{Name: name}, Setting: browser.PermissionSettingGranted,
		}))
	}
	b.press("Copy")
	b.sees("Copied")
	if got := script[string](b, `navigator.clipboard.readText()`); got != secret || !wholeKey.MatchString(got) {
		t.Errorf("copied %q", got)
	}
	b.do(chromedp.Reload())
	b.sees("Permissions")
	if strings.Contains(script[string](b, `document.documentElement.outerHTML`), secret) {
		t.Error("the key is shown again")
	}
	if n := len(must(s.keys.List(t.Context(), acme))(t)); n != 1 {
		t.Errorf("loading the page again made %d keys", n)
	}
	b.press("Rotate")
	b.press("Rotate key")
	b.sees("The key before it works until")
	b.press("I have kept it")
	b.press("Payroll export")
	b.press("Revoke")
	b.press("Revoke “Payroll export”")
	b.sees("The key was revoked")
	b.press("Audit")
	b.sees("Revoked API key")
	b.press("Sign out")
	b.sees("You are signed out")
}

// TestWebhookInTheBrowser adds a webhook with the address checked as it is
// typed, tests it, watches a delivery arrive by itself, and sends one again.
func TestWebhookInTheBrowser(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.deliver()
	var broken atomic.Bool
	r := s.receiver(func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	b := s.enter(acme, Admin)
	b.press("Add the first webhook")
	b.sees("It starts with https://")
	b.write("#address", "https://192.168.1.9/in")
	b.sees("is not a public address")
	b.picture("webhook-address-checked")
	b.write("#address", r.URL+"/in")
	b.until("the complaint is gone", `!document.body.innerText.includes("is not a public address")`)
	b.press("Add webhook")
	b.sees("Signing secret")
	b.sees("crypto.timingSafeEqual")
	b.press("Python")
	b.sees("hmac.compare_digest")
	b.judge("a new webhook")
	b.picture("webhook-shown")
	b.press("Send a test")
	b.sees("Answered 200 OK")
	b.picture("webhook-tested")
	hook := must(s.webhooks.List(t.Context(), acme))(t)[0]
	b.visit("/webhooks/" + hook.ID)
	b.sees("test.ping")
	script[bool](b, `(window.stays = true)`)
	s.append(acme, "period.closed", `{"period":"2026-10"}`)
	b.sees("period.closed")
	b.until("times are the reader's", `[...document.querySelectorAll("#live time")].every((e) => !e.textContent.includes("UTC") && e.title.endsWith("UTC"))`)
	if !script[bool](b, `window.stays`) {
		t.Error("the page was loaded again")
	}
	b.press("Pause updates")
	s.append(acme, "invoice.reversed", `{"invoice_id":"inv_9"}`)
	b.press("Resume updates")
	b.sees("invoice.reversed")
	broken.Store(true)
	b.press("invoice.reversed")
	b.sees("What was sent")
	b.press("Send again")
	b.sees("2 attempts")
	b.sees("502 Bad Gateway")
	b.judge("a delivery that was sent again")
	b.press("Webhooks")
	b.press(r.URL + "/in")
	b.press("Rotate secret")
	b.press("Rotate secret")
	b.sees("signed with both the old and the new secret")
	b.press("I have kept it")
	b.press("Delete")
	b.press("Delete " + hostOf(r.URL))
	b.sees("The webhook was deleted")
}

// TestTurnedOffInTheBrowser turns a webhook back on and sends what it missed.
func TestTurnedOffInTheBrowser(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	r := s.receiver(func(http.ResponseWriter, *http.Request) {})
	hook := must(s.webhooks.Create(t.Context(), acme, r.URL, []string{"all"}))(t)
	s.turnOff(hook.ID, time.Now())
	s.append(acme, "invoice.reversed", `{"invoice_id":"inv_1"}`)
	s.append(acme, "invoice.reversed", `{"invoice_id":"inv_2"}`)
	s.deliver()
	b := s.enter(acme, Admin)
	b.press(r.URL)
	b.sees("This webhook was turned off")
	b.press("Turn back on")
	b.sees("2 events were missed")
	b.picture("webhook-missed-after-turn-on")
	b.press("Send 2 missed events")
	b.until("both arrive", `document.querySelectorAll("#live tbody tr").length === 2`)
}

// TestKeyboardAlone makes a key without a mouse.
func TestKeyboardAlone(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	b := s.enter(acme, Admin)
	b.visit("/keys/new")
	reach := func(what, expression string) {
		t.Helper()
		for range 60 {
			b.do(chromedp.KeyEvent(kb.Tab))
			if script[bool](b, expression) {
				seen := script[string](b, `getComputedStyle(document.activeElement).outlineStyle`)
				if seen == "none" {
					t.Errorf("the focus on %s cannot be seen", what)
				}
				return
			}
		}
		t.Fatalf("%s cannot be reached with the keyboard", what)
	}
	reach("skip", `document.activeElement.matches(".skip")`)
	b.do(chromedp.KeyEvent(kb.Enter))
	reach("the name", `document.activeElement.id === "name"`)
	b.do(chromedp.KeyEvent("Nightly report"))
	reach("a permission", `document.activeElement.value === "events:read"`)
	b.do(chromedp.KeyEvent(" "))
	reach("the button", `document.activeElement.innerText === "Create key"`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.sees("It is shown this once")
	reach("the copy button", `document.activeElement.matches(".copy")`)
}

// TestWithoutScripts goes from the link to a webhook's page with scripts off.
func TestWithoutScripts(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	well, _, _ := s.furnish(acme)
	b := s.open()
	b.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	path, _, err := s.door.Link(t.Context(), NewLink{WorkspaceID: acme})
	if err != nil {
		t.Fatal(err)
	}
	b.visit(path)
	b.press("Sign in")
	b.sees("Webhooks")
	b.visit("/webhooks/" + well)
	b.sees("UTC")
	b.picture("webhook-without-scripts")
	b.press("Older")
	b.until("the next page", `location.search.includes("cursor=")`)
}
