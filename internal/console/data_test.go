package console

import (
	"encoding/csv"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// Each list is a file, with what the person may see and no cell that a spreadsheet takes
// for a formula.
func TestListsAsFiles(t *testing.T) {
	t.Parallel()
	s := setup(t)
	add := s.projecting()
	add("client.recorded", time.Time{}, `{"client_id":"cl_1","name":"=HYPERLINK(\"https://evil.example\")"}`)
	add("invoice.recorded", time.Time{}, invoiceOf)
	add("time_entry.recorded", time.Time{}, timeEntryOf)
	admin, viewer := s.signIn(acme, session.Admin), s.signIn(acme, session.Viewer)
	files := regexp.MustCompile(`href="(/data/[a-z-]+\.csv)" download`).FindAllStringSubmatch(viewer.get("/data").has("Data", "margins, are for admins").body, -1)
	if len(files) != 8 {
		t.Fatalf("%d files: %q", len(files), files)
	}
	admin.get("/data").hasNot("are for admins")
	columns := map[string][]string{}
	for _, f := range files {
		for _, p := range []*person{admin, viewer} {
			a := p.get(f[1]).status(http.StatusOK)
			if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/csv") || a.Header.Get("Cache-Control") != "no-store" ||
				!strings.HasPrefix(a.Header.Get("Content-Disposition"), `attachment; filename="acme-`) || a.Header.Get("Ratelimit-Limit") != "" {
				t.Errorf("%s: %v", f[1], a.Header)
			}
			table := testkit.Must(csv.NewReader(strings.NewReader(a.body)).ReadAll())(t)
			if p == viewer {
				columns[f[1]] = table[0]
			}
			if hidden := slices.Contains(table[0], "margin_amount") || slices.Contains(table[0], "pay_rate"); p == viewer && hidden {
				t.Errorf("%s shows a viewer %q", f[1], table[0])
			}
			if f[1] == "/data/clients.csv" && (len(table) != 2 || !strings.HasPrefix(table[1][1], "'=HYPERLINK")) {
				t.Errorf("%s: %q", f[1], table)
			}
		}
	}
	if !slices.Contains(testkit.Must(csv.NewReader(strings.NewReader(admin.get("/data/invoices.csv").body)).ReadAll())(t)[0], "margin_amount") {
		t.Error("an admin sees no margins")
	}
	if got := columns["/data/invoices.csv"]; !slices.Contains(got, "client.name") || slices.Contains(got, "payout_amount") {
		t.Errorf("a viewer's invoices have %q", got)
	}
	viewer.get("/data/events.csv").status(http.StatusNotFound)
	viewer.get("/data/invoices").status(http.StatusNotFound)
	if rows := strings.Count(s.signIn(beta, session.Admin).get("/data/clients.csv").body, "\n"); rows != 1 {
		t.Errorf("another workspace gets %d lines", rows)
	}
	if to := s.stranger().get("/data/clients.csv").to(); !strings.HasPrefix(to, "/sign-in") {
		t.Errorf("a stranger is sent to %q", to)
	}
	if strings.Contains(s.logs.String(), "level=ERROR") {
		t.Errorf("the log has\n%s", s.logs.String())
	}
}
