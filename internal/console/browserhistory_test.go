//go:build outside

package console

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// choose sets a list of choices.
func (b *tab) choose(name, value string) {
	b.t.Helper()
	b.until(name+" "+value, fmt.Sprintf(`document.readyState === "complete" && (e => { e.value = %s; return e.value === %[1]s; })(document.querySelector("select[name=%s]"))`, quoted(value), name))
}

// TestBrowserDeliveries filters a webhook's deliveries, pages through
// them, and looks at one in full.
func TestBrowserDeliveries(t *testing.T) {
	t.Parallel()
	s := setup(t)
	well, _, _ := s.seed(acme)
	b := s.enter(acme, session.Viewer)
	b.visit("/webhooks/" + well)
	b.until("the chart has bars", `document.querySelectorAll("svg .box.good").length > 10 && document.querySelectorAll("svg .box.bad").length > 0`)
	b.until("readings have both times", `/[AP]M E[SD]T \(.* UTC\): \d+ (failed|succeeded)/.test(document.querySelector("svg g title").textContent)`)
	b.press("As a table")
	b.sees("Succeeded")
	b.choose("state", "failed")
	b.choose("type", "time_entry.declined")
	b.press("Filter")
	b.all("only such deliveries", "#live tbody tr", `(r) => r.innerText.includes("failed") && r.innerText.includes("time_entry.declined")`, "state=failed")
	b.press("Show all")
	b.press("Older")
	b.until("the next page", `location.search.includes("cursor=") && document.querySelectorAll("#live tbody tr").length > 0`)
	b.press("Newest")
	b.choose("state", "pending")
	b.press("Filter")
	b.all("the next attempt", "#live tbody tr", `(r) => /next (now|in \d+ (min|h|days?))/.test(r.innerText)`, "state=pending")
	b.press("invoice.reversed")
	b.sees("No answer within 10 s.")
	b.sees("Answered 503 Service Unavailable")
	b.sees("the signature v1 is not stored")
	b.press("Beginning of the answer")
	b.sees("<b>Service</b> unavailable")
	b.press("The event and its other deliveries")
	b.sees("hooks.northwind-accounting.example")
}

// TestHistoryInTheBrowser filters events, requests and changes.
func TestHistoryInTheBrowser(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.seed(acme)
	b := s.enter(acme, session.Viewer)
	b.press("Events")
	b.sees("What happened in the last 30 days")
	script[bool](b, `(window.stays = true)`)
	s.append(acme, "period.closed", `{"period":"2026-12"}`)
	b.until("it comes by itself", `document.querySelector("#live").innerText.includes("2026-12") && window.stays`)
	b.choose("type", "charge.deleted")
	b.press("Filter")
	b.all("only such events", "#live tbody th", `(e) => e.innerText === "charge.deleted"`, "type=charge.deleted")
	b.press("charge.deleted")
	b.sees("A charge was deleted")
	b.sees("Deliveries")

	b.press("Request log")
	b.until("an hour is drawn", `document.querySelector("svg title").textContent.includes("last hour, by minute")`)
	b.sees("Over the key's limit (429)")
	b.until("refused requests are drawn", `document.querySelectorAll("svg g .box.stripes").length > 1`)
	b.press("24 hours")
	b.until("a day is drawn", `document.querySelector("svg title").textContent.includes("last 24 hours")`)
	b.choose("status", "5")
	b.press("Filter")
	b.all("only server errors", "main tbody .badge", `(e) => e.innerText === "500"`, "status=5", "range=day")
	b.until("one can be looked at", `Boolean(document.querySelector("main tbody th a"))`)
	b.do(chromedp.Click("main tbody th a"))
	b.sees("Request ID")
	b.sees("Parameter values and answers are not stored")

	b.press("Audit")
	b.sees("Revoked API key Trial script")
	b.sees("root@ledger-1")
}

// TestBrowserIdentity goes to the provider and back, and to another
// workspace.
func TestBrowserIdentity(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.claims["groups"] = []string{"finance", "support"}
	s := p.setup(t, "finance=acme:admin;support=*:viewer")
	p.mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		p.asked = r.URL.Query()
		back := p.asked.Get("redirect_uri") + "?" + url.Values{"state": {p.asked.Get("state")}, "code": {p.code}}.Encode()
		http.Redirect(w, r, back, http.StatusSeeOther)
	})
	b := s.open()
	b.visit("/keys")
	b.press("Continue with your organisation")
	b.sees("Current workspace")
	b.judge("workspaces")
	b.picture("workspaces-two")
	b.press("Open\nBeta Studio") // the name is for screen readers only
	b.sees("Viewer: can view, not change")
	b.press("Sign out")
	b.sees("You are signed out")
}

// TestRequestsInTheBrowser looks for the request of an error, reads why it failed, and
// copies it.
func TestRequestsInTheBrowser(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.seed(acme)
	key, _ := s.key(acme, "Sync of invoices", access.InvoicesRead)
	s.record(acme, key, faulty()...)
	b := s.enter(acme, session.Viewer)
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		b.do(call(browser.SetPermission, browser.SetPermissionParams{Permission: &browser.PermissionDescriptor{Name: name}, Setting: browser.PermissionSettingGranted}))
	}
	b.press("Request log")
	b.sees("Refused requests are counted, not listed")
	b.write("input[name=find]", "req_wrong")
	b.press("Filter")
	b.all("one request", "main tbody .badge", `(e) => e.innerText === "400"`, "find=req_wrong")
	b.sees("limit, pageSize")
	b.until("the chart counts it alone", `document.querySelector(".legend").textContent === "Server errors 0Client errors 1Succeeded 0"`)
	b.judge("a search of the request log")
	b.picture("requests-found")
	b.do(chromedp.Click("main tbody th a"))
	b.sees("The request is wrong")
	b.sees("It must be a whole number from 1 to 100.")
	b.sees("2001:db8::7")
	b.judge("a request that failed")
	b.picture("request-failed")
	b.do(chromedp.Click(`[data-copy="#curl"]`))
	b.sees("Copied")
	if got, want := script[string](b, `navigator.clipboard.readText()`), "curl -i 'https://api.example.com/v1/invoices' -H 'Authorization: Bearer <API_KEY>'"; got != want {
		t.Errorf("%q was copied, want %q", got, want)
	}
	b.press("All requests of this key")
	b.all("requests of the key", "main table.stack tbody tr", `(r) => r.innerText.includes("Sync of invoices")`, "key="+key)
	b.choose("status", "404")
	b.press("Filter")
	b.all("only those not found", "main tbody .badge", `(e) => e.innerText === "404"`, "status=404", "key="+key)
	b.picture("requests-404")
	at := s.clock.Now().Add(-48 * time.Hour)
	script[bool](b, fmt.Sprintf(`((e) => { e.value = new Date(%d - new Date().getTimezoneOffset() * 60000).toISOString().slice(0, 16); e.dispatchEvent(new Event("input")); return true; })(document.querySelector("label.moment input"))`, at.UnixMilli()))
	b.press("Filter")
	b.until("the chart is of the time", `document.querySelector("svg title").textContent.includes("in the chosen time") && location.search.includes("from=`+at.UTC().Format("2006-01-02")+`")`)
	b.judge("a time of the request log")
	b.press("Show all")
	b.press("Older")
	b.press("Newer")
	b.until("the first page", `location.search.includes("cursor=") && ![...document.querySelectorAll(".pager a")].some((a) => a.innerText === "Newer")`)
}
