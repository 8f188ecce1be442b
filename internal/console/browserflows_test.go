//go:build outside

package console

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// api answers /v1/me to a key that works, as the API does.
func (s *bundle) api() *httptest.Server {
	s.t.Helper()
	directory := testkit.Must(access.NewDirectory(access.DirectoryConfig{Pool: s.pool, Format: access.NewFormat(brand.Brand{}), Clock: s.clock.Now}))(s.t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secret, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		key, err := directory.Authenticate(r.Context(), secret)
		if err != nil || r.URL.Path != "/v1/me" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, key.WorkspaceID+" "+key.Permissions.String())
	}))
	s.t.Cleanup(server.Close)
	return server
}

// TestBrowserKey makes, copies, tries, rotates and revokes a key.
func TestBrowserKey(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.console.keys.APIURL = s.api().URL
	b := s.enter(acme, session.Admin)
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
	b.sees("It is shown only once")
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
	line := script[string](b, `document.querySelector("#curl").textContent`)
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", line).Output(); err != nil || string(out) != "acme invoices:read,pay:read,margin:read" {
		t.Errorf("%s\nsays %q (%v)", line, out, err)
	}
	b.do(chromedp.Reload())
	b.sees("Permissions")
	if strings.Contains(script[string](b, `document.documentElement.outerHTML`), secret) {
		t.Error("the key is shown again")
	}
	list := testkit.Must(s.keys.List(t.Context(), acme))(t)
	if len(list) != 1 {
		t.Fatalf("loading the page again made %d keys", len(list))
	}
	now := s.clock.Now()
	s.requestAt(acme, list[0].ID, now, now, now)
	b.do(chromedp.Reload())
	b.sees("Requests today\n3")
	b.judge("a key that is used")
	b.picture("key-used")
	b.press("Rename")
	b.sees("programs that use it are not affected")
	b.write("#name", "Payroll")
	b.press("Rename")
	b.sees("The key was renamed.")
	b.press("Rename")
	b.sees("programs that use it are not affected")
	b.write("#name", "Payroll export")
	b.press("Rename")
	b.sees("Payroll export")
	b.press("Rotate")
	b.press("Works for another 24 hours\nChoose this for a planned change: nothing is interrupted.")
	b.press("Rotate key")
	b.sees("The old key works until")
	b.press("I have saved it")
	b.press("Payroll export")
	b.sees("Earlier secrets")
	b.press("Revoke")
	b.sees("It is in use: 3 requests today")
	b.press("Revoke “Payroll export”")
	b.sees("The key was revoked")
	b.press("Audit")
	b.sees("Revoked API key")
	b.press("Sign out")
	b.sees("You are signed out")
}

// TestLongNamesInTheBrowser: one unbroken name leaves the other columns in sight, and a
// search leaves one key.
func TestLongNamesInTheBrowser(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.key(acme, strings.Repeat("unbroken", 12), access.PayRead)
	s.key(acme, "Monthly report", access.InvoicesRead, access.ClientsRead, access.PaymentsRead, access.EventsRead)
	b := s.enter(acme, session.Admin)
	for _, a := range []appearance{{"light", 1280, "light"}, {"laptop", 1024, "light"}, {"small", 360, "dark"}} {
		b.appear(a)
		b.visit("/keys")
		b.judge("a long name, " + a.name)
		b.picture("keys-long-name-" + a.name)
		if !script[bool](b, `[...document.querySelectorAll("main td")].every((e) => e.getBoundingClientRect().right <= innerWidth)`) {
			t.Errorf("%s: a column is out of sight", a.name)
		}
	}
	b.write("main input[type=search]", "month")
	b.press("Search")
	b.all("one key is found", "main tbody tr", `(e) => e.innerText.includes("Monthly report")`, "search=month")
	b.press("Show all")
	b.sees("no access")
}

// TestBrowserWebhook adds a webhook with the address checked as it is
// typed, tests it, watches a delivery arrive by itself, and sends one again.
func TestBrowserWebhook(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.deliver()
	var broken atomic.Bool
	r := s.receiver(func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	b := s.enter(acme, session.Admin)
	b.visit("/webhooks")
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
	hook := testkit.Must(s.webhooks.List(t.Context(), acme))(t)[0]
	b.visit("/webhooks/" + hook.ID)
	b.lists("test.ping")
	script[bool](b, `(window.stays = true)`)
	s.append(acme, "period.closed", `{"period":"2026-10"}`)
	b.lists("period.closed")
	b.all("times are the reader's", "#live time", `(e) => e.textContent === "now" && /[AP]M E[SD]T · .* UTC$/.test(e.title)`)
	if !script[bool](b, `window.stays`) {
		t.Error("the page was loaded again")
	}
	b.press("Pause updates")
	s.append(acme, "invoice.reversed", `{"invoice_id":"inv_9"}`)
	b.until("updates are paused", `document.querySelector("[data-pause]").getAttribute("aria-pressed") === "true"`)
	b.press("Resume updates")
	b.lists("invoice.reversed")
	broken.Store(true)
	b.press("invoice.reversed")
	b.sees("What was sent")
	b.press("Send again")
	b.sees("2 attempts")
	b.sees("502 Bad Gateway")
	b.judge("a delivery that was sent again")
	b.press("Webhooks")
	b.press(strings.TrimPrefix(r.URL, "https://") + "/in")
	b.press("Edit")
	b.press("Only these")
	b.do(chromedp.Click(`input[value="period.closed"]`))
	b.write("#address", r.URL+"/other")
	b.write("#name", "Payroll")
	b.write("#description", "Run by Dana")
	b.judge("the form of a webhook")
	b.picture("webhook-form-filled")
	b.press("Save")
	b.sees("Saved.")
	b.sees("Payroll")
	b.sees("Run by Dana")
	b.sees("Standard Webhooks headers are sent too")
	if hook = testkit.Must(s.webhooks.List(t.Context(), acme))(t)[0]; hook.URL != r.URL+"/other" || strings.Join(hook.Events, ",") != "period.closed" {
		t.Errorf("edited to %s %v", hook.URL, hook.Events)
	}
	b.press("Rotate secret")
	b.press("Rotate secret")
	b.sees("signed with both the old and the new secret")
	b.press("I have saved it")
	b.press("Delete")
	b.press("Delete webhook")
	b.sees("The webhook was deleted")
}

// TestBrowserTurnedOff turns a webhook back on and sends what it missed.
func TestBrowserTurnedOff(t *testing.T) {
	t.Parallel()
	s := setup(t)
	r := s.receiver(func(http.ResponseWriter, *http.Request) {})
	hook := testkit.Must(s.webhooks.Create(t.Context(), acme, delivery.Definition{URL: r.URL, Events: []string{"all"}}))(t)
	s.turnOff(hook.ID, time.Now())
	s.append(acme, "invoice.reversed", `{"invoice_id":"inv_1"}`)
	s.append(acme, "invoice.reversed", `{"invoice_id":"inv_2"}`)
	s.deliver()
	b := s.enter(acme, session.Admin)
	b.press(strings.TrimPrefix(r.URL, "https://"))
	b.sees("This webhook was turned off")
	b.sees("The last one: the name did not resolve.")
	b.until("the notice's time is the reader's", `(e => e.title.endsWith("UTC") && /[AP]M/.test(e.textContent))(document.querySelector(".notice time"))`)
	b.press("Turn back on")
	b.sees("2 events were missed")
	script[bool](b, `(e => e.dispatchEvent(new Event("input")))(document.querySelector("input[data-utc]"))`) // as if it was typed
	b.press("Count")
	b.until("the same moment is sent, in UTC", `location.search.includes("000Z") && document.readyState === "complete"`)
	b.sees("2 events were missed")
	b.picture("webhook-missed-after-turn-on")
	b.press("Send 2 missed events")
	b.until("both arrive", `document.querySelectorAll("#live tbody tr").length === 2`)
}
