//go:build outside

package console

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/projections/anomaly"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// look is a page in a state that has a picture.
type look struct{ name, path string }

// looks judges pages in every appearance, and keeps pictures of them.
func (b *tab) looks(pages []look) {
	b.t.Helper()
	for _, a := range []appearance{{"light", 1280, "light"}, {"dark", 1280, "dark"}, {"small", 360, "light"}, {"laptop", 1024, "light"}, {"tablet", 768, "light"}} {
		if a.name != "light" && !testkit.Full() {
			b.t.Logf("left to full: the look %q", a.name)
			continue
		}
		b.appear(a)
		for _, p := range pages {
			b.visit(p.path)
			if a.width < 1280 && a.name != "small" {
				b.fits(p.name + ", " + a.name) // axe finds the same in light
				continue
			}
			b.judge(p.name + ", " + a.name)
			b.picture(p.name + "-" + a.name)
		}
	}
}

// TestBrowserEveryPage visits each page in light, in dark and on a small
// screen: axe finds nothing, nothing is cut off, and pictures are kept. A page that is
// added has to be visited as well.
func TestBrowserEveryPage(t *testing.T) {
	t.Parallel()
	s := setup(t)
	well, failing, off := s.seed(acme)
	if _, err := anomaly.NewStore(s.pool, s.clock.Now).Acknowledge(t.Context(), acme, anomaly.Which{Position: 9}, "The producer has corrected it: case 4711"); err != nil {
		t.Fatal(err)
	}
	b := s.enter(acme, session.Admin)
	keys := testkit.Must(s.keys.List(t.Context(), acme))(t)
	event, _, _ := strings.Cut(s.deliveryOf(well, "failed"), "_wh_")
	link := s.link(session.Link{WorkspaceID: acme})
	pages := []look{
		{"overview", "/"}, {"keys", "/keys"}, {"key-new", "/keys/new"}, {"key", "/keys/" + keys[1].ID}, {"key-rename", "/keys/" + keys[1].ID + "/rename"}, {"key-rotate", "/keys/" + keys[1].ID + "/rotate"}, {"key-revoke", "/keys/" + keys[1].ID + "/revoke"},
		{"webhooks", "/webhooks"}, {"webhook-new", "/webhooks/new"}, {"webhook", "/webhooks/" + well}, {"webhook-failing", "/webhooks/" + failing}, {"webhook-off", "/webhooks/" + off},
		{"webhook-edit", "/webhooks/" + failing + "/edit"}, {"webhook-rotate", "/webhooks/" + well + "/rotate"}, {"webhook-delete", "/webhooks/" + well + "/delete"}, {"webhook-missed", "/webhooks/" + well + "/missed"},
		{"delivery-failed", "/deliveries/" + s.deliveryOf(well, "failed")}, {"delivery-pending", "/deliveries/" + s.deliveryOf(well, "pending")},
		{"events", "/events"}, {"data", "/data"}, {"data-list", "/data/invoices?client_id=cl_1"}, {"data-fault", "/data/invoices?period=october"}, {"data-row", "/data/invoices/in_1"}, {"data-party", "/data/clients/cl_1"},
		{"data-forget", "/data/clients/cl_1/forget"}, {"search", "/search?q=clinic"}, {"search-none", "/search?q=nobody"}, {"event", "/events/" + event}, {"requests", "/requests"}, {"requests-day", "/requests?range=day"}, {"request", s.requestOf(acme)},
		{"anomalies", "/anomalies"}, {"anomalies-all", "/anomalies?all=1"}, {"anomaly-group", "/anomalies/unknown_object/invoice.reversed"},
		{"anomaly", "/anomalies/at/1"}, {"anomaly-acknowledged", "/anomalies/at/9"}, {"audit", "/audit"}, {"settings", "/settings"}, {"workspaces", "/workspaces"}, {"sign-in", "/sign-in"}, {"sign-in-link", link}, {"not-found", "/keys/none"},
	}
	b.looks(pages)
	visited := []string{"/api", "/api/invoices", "/webhooks/check-address"} // TestBrowserReference judges the first, and the last is a part of a page
	for _, p := range pages {
		visited = append(visited, p.path)
	}
	if left := s.console.Unvisited(visited); len(left) > 0 {
		t.Errorf("no picture is taken of %q", left)
	}
}

// TestEmptyPagesInEveryLook visits the lists of a workspace that has nothing yet, as an
// admin and as a viewer sees them.
func TestEmptyPagesInEveryLook(t *testing.T) {
	t.Parallel()
	s := setup(t)
	lists := func(name string) (pages []look) {
		for _, path := range []string{"", "keys", "webhooks", "events", "data", "data/invoices", "requests", "anomalies", "settings"} {
			pages = append(pages, look{strings.ReplaceAll(strings.TrimSuffix(name+path, "-"), "/", "-"), "/" + path})
		}
		return pages
	}
	s.enter(beta, session.Admin).looks(append(lists("empty-"), look{"empty-audit", "/audit?who=nobody"}, look{"empty-link", "/sign-in/none"}, look{"empty-ended", "/sign-in?ended=kept"}))
	s.enter(beta, session.Viewer).looks(append(lists("viewer-"), look{"viewer-refused", "/keys/new"}))
}

// TestOddNamesInEveryLook visits the pages of a workspace that is full, with names that
// are long, from right to left, or pictures.
func TestOddNamesInEveryLook(t *testing.T) {
	t.Parallel()
	s := setup(t)
	long := strings.Repeat("Verylongnamewithoutaspace", 4)
	s.exec(`UPDATE workspace SET name = $2 WHERE workspace_id = $1`, acme, "شركة المحاسبة الحديثة 🧾 "+long)
	names := []string{long[:95], "تقرير الرواتب الشهري", "💸💸💸 Payroll 💸💸💸", "A name with many short words that goes on for some time until it has nearly a hundred letters"}
	for i := range access.MaxLiveKeys {
		s.key(acme, fmt.Sprintf("%s %d", names[i%len(names)], i), access.InvoicesRead, access.PayRead, access.MarginRead)
	}
	var hook string
	for i := range delivery.MaxWebhooks {
		hook = testkit.Must(s.webhooks.Create(t.Context(), acme, delivery.Definition{
			URL: fmt.Sprintf("https://hooks-%d.example.com/%s", i, strings.Repeat("deep/", 60)), Name: names[i%len(names)], Description: names[i%len(names)] + " " + names[i%len(names)], Events: []string{"all"},
		}))(t).ID
	}
	keys := testkit.Must(s.keys.List(t.Context(), acme))(t)
	s.enter(acme, session.Admin).looks([]look{
		{"odd", "/"}, {"odd-keys", "/keys"}, {"odd-key", "/keys/" + keys[len(keys)-1].ID}, {"odd-key-revoke", "/keys/" + keys[len(keys)-1].ID + "/revoke"}, {"odd-key-new", "/keys/new"},
		{"odd-webhooks", "/webhooks"}, {"odd-webhook", "/webhooks/" + hook}, {"odd-webhook-delete", "/webhooks/" + hook + "/delete"}, {"odd-webhook-new", "/webhooks/new"},
		{"odd-requests", "/requests"}, {"odd-audit", "/audit"}, {"odd-settings", "/settings"},
	})
}

// TestBrowserRowsAreOneLine: on a desktop, a row of a list is 40 px high at most, and the filters of
// the request log are one line.
func TestBrowserRowsAreOneLine(t *testing.T) {
	t.Parallel()
	s := setup(t)
	well, failing, _ := s.seed(acme)
	keys := testkit.Must(s.keys.List(t.Context(), acme))(t)
	s.use(acme, keys[0].ID, well, 300, 50*time.Minute)
	s.fail(acme, failing)
	s.addToAudit(dana, audit.Change{WorkspaceID: acme, Action: audit.KeyCreate, ObjectName: strings.Repeat("A long name ", 8), Detail: strings.Repeat("with invoices:read, ", 12)})
	b := s.enter(acme, session.Admin)
	for _, path := range []string{
		"/", "/keys", "/keys/" + keys[0].ID, "/webhooks", "/webhooks/" + well, "/events", "/requests", "/requests?status=errors", "/anomalies?all=1",
		"/anomalies/unknown_object/invoice.reversed", "/audit", "/data", "/data/invoices", "/data/clients", "/data/time-entries", "/data/charges",
	} {
		b.visit(path)
		high := script[string](b, `[...document.querySelectorAll("main table.rows tr")].filter((e) => e.getBoundingClientRect().height > 40)
			.map((e) => e.getBoundingClientRect().height + " px: " + e.innerText.replaceAll("\n", " ")).join("\n")`)
		if high != "" {
			t.Errorf("%s has rows of more than 40 px:\n%s", path, high)
		}
		b.fits(path)
		others := script[int](b, `document.querySelectorAll("main table:not(.rows, .chart table)").length`)
		if rows := script[int](b, `document.querySelectorAll("main table.rows tbody tr").length`); others > 0 || rows == 0 && !strings.HasPrefix(path, "/data/") {
			t.Errorf("%s has %d rows, and %d tables of another kind", path, rows, others)
		}
	}
	b.visit("/requests")
	if lines := script[int](b, `new Set([...document.querySelectorAll(".filters > *:not([type=hidden])")].map((e) => e.getBoundingClientRect().bottom)).size`); lines != 1 {
		t.Errorf("the filters are in %d lines", lines)
	}
	b.visit("/audit")
	b.do(chromedp.Click(".more summary"))
	b.until("a row that is cut off opens", `document.querySelector(".more").closest("tr").getBoundingClientRect().height > 40`)
}
