package console

import (
	"encoding/csv"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xuri/excelize/v2"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// table reads a workbook's only sheet.
func table(t *testing.T, body string) [][]string {
	t.Helper()
	f := testkit.Must(excelize.OpenReader(strings.NewReader(body)))(t)
	defer func() { _ = f.Close() }()
	rows := testkit.Must(f.GetRows(f.GetSheetName(0), excelize.Options{RawCellValue: true}))(t)
	for i := range rows { // without empty cells at their ends
		rows[i] = append(rows[i], make([]string, max(0, len(rows[0])-len(rows[i])))...)
	}
	return rows
}

// TestListsAsFiles: each list is a workbook and CSV, with what the person may see, and no cell of CSV
// that a spreadsheet takes for a formula.
func TestListsAsFiles(t *testing.T) {
	t.Parallel()
	s := setup(t)
	add := s.projecting()
	const name = "=HYPERLINK(\"https://evil.example\")"
	add("client.recorded", time.Time{}, `{"client_id":"cl_1","name":`+strconv.Quote(name)+`}`)
	add("client.recorded", time.Time{}, `{"client_id":"cl_2","name":"Ελληνική, 株式会社 «Північ»\nGmbH"}`)
	add("contractor.recorded", time.Time{}, `{"contractor_id":"co_1","name":"Rosa Tran"}`)
	add("invoice.recorded", time.Time{}, invoiceOf)
	add("invoice.recorded", time.Time{}, `{"invoice_id":"in_2","number":"INV-2","client_id":"cl_2","period":"2026-11","gross_amount":"0.30","currency":"CHF","client_billing_status":"ready_to_send"}`)
	add("time_entry.recorded", time.Time{}, timeEntryOf)
	add("invoice.issued", time.Time{}, `{"invoice_id":"in_1","invoice_number":"D-1","amount":"1275.71"}`)
	admin, viewer := s.signIn(acme, session.Admin), s.signIn(acme, session.Viewer)
	files := regexp.MustCompile(`href="(/files/[a-z-]+\.(?:csv|xlsx))" download`).FindAllStringSubmatch(viewer.get("/data").has("Data", "margins, are for admins").body, -1)
	if len(files) != 16 {
		t.Fatalf("%d files: %q", len(files), files)
	}
	admin.get("/data").hasNot("are for admins")
	// As a spreadsheet takes it for a time: by its text, or as a number of days.
	updated := map[string]*regexp.Regexp{".csv": regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$`), ".xlsx": regexp.MustCompile(`^\d{5}(\.\d+)?$`)}
	for _, f := range files {
		for _, p := range []*person{admin, viewer} {
			a := p.get(f[1]).status(http.StatusOK)
			var rows [][]string
			if strings.HasSuffix(f[1], ".csv") {
				if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/csv") || !strings.HasPrefix(a.body, "\ufeff") || strings.Contains(a.body, "{") || strings.Count(a.body, "\r\n") != strings.Count(a.body, "\n") {
					t.Errorf("%s: %v %q", f[1], a.Header, a.body)
				}
				rows = testkit.Must(csv.NewReader(strings.NewReader(strings.TrimPrefix(a.body, "\ufeff"))).ReadAll())(t)
			} else {
				rows = table(t, a.body)
			}
			if a.Header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(a.Header.Get("Content-Disposition"), `attachment; filename="acme-`) || a.Header.Get("Ratelimit-Limit") != "" {
				t.Errorf("%s: %v", f[1], a.Header)
			}
			if heads := slices.Sorted(slices.Values(rows[0])); len(slices.Compact(heads)) != len(rows[0]) {
				t.Errorf("%s has two columns of one name: %q", f[1], rows[0])
			}
			if at := slices.Index(rows[0], "Updated (UTC)"); at >= 0 && len(rows) > 1 && !updated[f[1][strings.LastIndex(f[1], "."):]].MatchString(rows[1][at]) {
				t.Errorf("%s was updated at %q", f[1], rows[1][at])
			}
			hidden := slices.Contains(rows[0], "Margin amount") || slices.Contains(rows[0], "Pay rate")
			if wanted := p == admin && (strings.Contains(f[1], "invoices") || strings.Contains(f[1], "time-entries") || strings.Contains(f[1], "charges")); hidden != wanted {
				t.Errorf("%s has %q", f[1], rows[0])
			}
		}
	}
	clients := testkit.Must(csv.NewReader(strings.NewReader(strings.TrimPrefix(viewer.get("/files/clients.csv").body, "\ufeff"))).ReadAll())(t)
	if len(clients) != 3 || clients[1][1] != "'"+name || clients[2][1] != "Ελληνική, 株式会社 «Північ»\nGmbH" {
		t.Errorf("clients are %q", clients)
	}
	if rows := table(t, viewer.get("/files/clients.xlsx").body); rows[1][1] != name { // a text cell is no formula
		t.Errorf("clients are %q", rows)
	}

	invoices := table(t, admin.get("/files/invoices.xlsx").body)
	column := func(label string) int { return slices.Index(invoices[0], label) }
	first := slices.IndexFunc(invoices, func(row []string) bool { return row[0] == "in_1" })
	for label, want := range map[string]string{
		"Amount": "1275.71", "Period start": "46296", "Client": name, "Client ID": "cl_1", "Margin amount": "277.12", "Status": "ready to send", "Reversed": "no", "Credit note": "",
	} {
		if got := invoices[first][column(label)]; got != want {
			t.Errorf("%s is %q, want %q", label, got, want)
		}
	}
	if got := invoices[first][column("Documents")]; !strings.HasPrefix(got, "Number D-1 · Amount 1,275.71 · Status issued") {
		t.Errorf("the documents are %q", got)
	}
	totals := map[string]string{}
	for _, row := range invoices[3:] {
		totals[row[0]+row[column("Currency")]+row[column("Type")]] = row[column("Amount")]
	}
	if len(invoices) != 6 || totals["Total EUR invoice not reversed"] != "1275.71" || totals["Total CHF invoice not reversed"] != "0.3" {
		t.Errorf("the totals are %v", totals)
	}
	if rows := table(t, viewer.get("/files/invoices.xlsx?client_id=cl_2").body); len(rows) != 4 || rows[1][0] != "in_2" {
		t.Errorf("of one client are %q", rows)
	}
	german := viewer.do(http.MethodGet, "/files/invoices.csv?client_id=cl_2", nil, func(r *http.Request) { r.Header.Set("Accept-Language", "de-DE,de;q=0.9") })
	if !strings.Contains(german.body, "ID;Number;") || !strings.Contains(german.body, ";0,30;") {
		t.Errorf("in German it is %q", german.body)
	}
	for _, none := range []string{"/files/events.csv", "/files/invoices", "/files/invoices.pdf", "/files/none.xlsx"} {
		viewer.get(none).status(http.StatusNotFound)
	}
	viewer.get("/files/invoices.xlsx?date_from=x").status(http.StatusBadRequest).has("A filter is not valid")
	for _, unknown := range []string{"/files/clients.xlsx?period=2026-10", "/files/invoices.csv?perod=2026-10", "/files/invoices.csv?period=2026-10&limit=5", "/files/invoices.csv?period=2026-10&period=2026-11"} {
		viewer.get(unknown).status(http.StatusBadRequest).has("No such filter")
	}
	for _, unknown := range []string{"/data/invoices?from=2026-10-01", "/data/invoices?limit=5", "/data/clients?client_id=cl_1", "/data/invoices?period=2026-10&period=2026-11"} {
		viewer.get(unknown).status(http.StatusBadRequest).has("No such filter", "Go to the list")
	}
	viewer.get("/data/invoices?period=+2026-10+&client_id=&totals=all").status(http.StatusOK).has("INV-1")
	viewer.get("/files/invoices.csv?client_id=").status(http.StatusOK)
	if rows := table(t, s.signIn(beta, session.Admin).get("/files/clients.xlsx").body); len(rows) != 1 {
		t.Errorf("another workspace gets %q", rows)
	}
	if to := s.stranger().get("/files/clients.csv").to(); !strings.HasPrefix(to, "/sign-in") {
		t.Errorf("a stranger is sent to %q", to)
	}
	if strings.Contains(s.logs.String(), "level=ERROR") {
		t.Errorf("the log has\n%s", s.logs.String())
	}
}

// TestData: people find the workspace's rows, with what a key of their role would get.
func TestData(t *testing.T) {
	t.Parallel()
	s := setup(t)
	add := s.projecting()
	add("client.recorded", time.Time{}, `{"client_id":"cl_1","name":"Northwind <b>Clinic</b>","contacts":[{"first_name":"Ada","last_name":"Moreau","email":"ada@example.com","is_primary":true,"receives_invoices":true}]}`)
	add("contractor.recorded", time.Time{}, `{"contractor_id":"co_1","name":"Rosa Tran"}`)
	add("invoice.recorded", time.Time{}, invoiceOf)
	add("time_entry.recorded", time.Time{}, timeEntryOf)
	add("charge.created", time.Time{}, `{"charge_id":"ch_own","client_id":"cl_1","invoice_id":"in_1","date":"2026-10-02","category":"own cost","kind":"service_fee","billed_to_client":false,"amount":"155.00","currency":"EUR","period":"2026-10","pay_amount":"141.57"}`)
	add("charge.created", time.Time{}, `{"charge_id":"ch_1","client_id":"cl_1","invoice_id":"in_1","date":"2026-10-02","category":"parking","kind":"service_fee","amount":"156.00","currency":"EUR","period":"2026-10","pay_amount":"142.57"}`)
	add("invoice.issued", time.Time{}, `{"invoice_id":"in_1","invoice_number":"D-1","amount":"1275.71"}`)
	issued := add("invoice.sent", time.Time{}, `{"invoice_id":"in_1"}`)
	add("payment.confirmed", time.Time{}, `{"payment_id":"pm_in","invoice_id":"in_1","client_id":"cl_1","amount":"1000.00","currency":"EUR","source":"bank"}`)
	add("payout.paid", time.Time{}, `{"payment_id":"pm_1","invoice_id":"in_1","contractor_id":"co_1","amount":"998.59","currency":"EUR","source":"bank"}`)
	add("credit.topped_up", time.Time{}, `{"credit_id":"cr_1","client_id":"cl_1","amount":"50.00","currency":"EUR"}`)
	admin, viewer := s.signIn(acme, session.Admin), s.signIn(acme, session.Viewer)
	pay := []string{"998.59", "133.15", "141.57", "142.57", "277.12", "155.00", "own cost", "pm_1", "Payout"}

	viewer.get("/data/invoices").has("INV-1", `href="/data/invoices/in_1"`, `href="/data/clients/cl_1"`, "Northwind &lt;b&gt;Clinic", "1,275.71", "October 2026", "sent", "Add up all of it", "Unpaid").hasNot(pay...)
	viewer.get("/data/invoices?open=true&date_from=2026-10-01&date_to=2026-10-31").has("INV-1", "In all of this selection", "Not paid yet", "From: 2026-10-01", `href="/data/invoices?date_from=2026-10-01&amp;open=true"`, "/files/invoices.csv?date_from=2026-10-01&amp;date_to=2026-10-31&amp;open=true").hasNot(pay...)
	viewer.get("/data/invoices").hasNot("exact period", "any day of their period")
	viewer.get("/data/invoices?period=2026-10&client_id=cl_1").has("Only invoices of the exact period 2026-10.",
		`<a href="/data/invoices?client_id=cl_1&amp;date_from=2026-10-01&amp;date_to=2026-10-31">By days: all of October 2026</a>`).hasNot("any day of their period")
	viewer.get("/data/invoices?date_from=2026-10-01&date_to=2026-10-31").has("Invoices with any day of their period in the range", "Each counts in full.",
		`<a href="/data/invoices?period=2026-10">Only the exact period 2026-10</a>`)
	viewer.get("/data/invoices?date_from=2026-10-02&date_to=2026-10-31").has("any day of their period").hasNot("exact period")
	viewer.get("/data/invoices?period=2026-W40").has("exact period 2026-W40").hasNot("By days")
	viewer.get("/data/invoices?period=2026-10&date_from=2026-10-01&date_to=2026-10-31").has("exact period 2026-10.", "any day of their period").hasNot("By days", "Only the exact")
	viewer.get("/data/invoices?by=month").has("the month in which its period begins")
	viewer.get("/data/charges?date_from=2026-10-01").has("In all", "Charges by their date.")
	viewer.get("/data/payments?date_to=2026-10-01").has("Payments by the day on which they were confirmed")
	viewer.get("/data/invoices?date_from=2026-11-01").has("Nothing matches", "There is nothing to add up").hasNot("INV-1")
	for _, wrong := range []string{"date_from=october", "date_from=2026-10-31&date_to=2026-10-01", "period=2026-13", "date_to=x&totals=all"} {
		viewer.get("/data/invoices?"+wrong).status(http.StatusOK).has("Must ", `aria-invalid="true"`, "Show all").
			hasNot("INV-1", "could not be added up", "Nothing matches", "In all", "Add up all of it", "Download CSV")
	}
	viewer.get("/data/invoices").has("After credit").hasNot("Left to pay", "left to pay")
	viewer.get("/data/charges?totals=all").has("parking", "156.00").hasNot(pay...)
	admin.get("/data/charges?totals=all").has("parking", "own cost", "311.00", "not billed<")
	viewer.get("/data/payments?totals=all").has("received from client", "1,000.00").hasNot(pay...)
	admin.get("/data/payments").has("paid to contractor", "998.59", "Rosa Tran")
	viewer.get("/data/credits").has("Northwind", "50.00", `href="/data/clients/cl_1"`)
	viewer.get("/data/credit-history").has("top up", "50.00")
	for _, l := range []string{"time-entries", "contractors", "clients"} {
		viewer.get("/data/" + l).status(http.StatusOK).hasNot(pay...)
	}

	invoice := viewer.get("/data/invoices/in_1").has(
		"INV-1", "Northwind &lt;b&gt;Clinic", "Documents", "D-1", "Charges", "parking", "Time entries", "Payments", "1,000.00",
		"invoice.<wbr>issued", `href="/events/`+issued+`"`, "Status",
		`<p class="lead"><span class="badge wait">sent</span> <span class="break">1,275.71 <span class="muted">EUR</span></span> </p>`).hasNot(pay...)
	if strings.Contains(invoice.body, "ayroll") {
		t.Error("a viewer sees what payroll did")
	}
	admin.get("/data/invoices/in_1").has("Pay", "998.59", "Margin", "277.12", "own cost", "pm_1")
	viewer.get("/data/clients/cl_1").has("Ada", "ada@example.com", "INV-1", "parking", "1,000.00", "Client credit", "50.00").hasNot(pay...)
	admin.get("/data/contractors/co_1").has("Rosa Tran", "INV-1")
	viewer.get("/data/payments/pm_1").status(http.StatusNotFound).hasNot(pay...)
	viewer.get("/data/charges/ch_own").status(http.StatusNotFound).hasNot(pay...)
	for _, none := range []string{"/data/none", "/data/events", "/data/invoices/in_none", "/data/credits/cl_1"} {
		viewer.get(none).status(http.StatusNotFound)
	}
	s.signIn(beta, session.Admin).get("/data/invoices/in_1").status(http.StatusNotFound)
	s.signIn(beta, session.Admin).get("/data/invoices").has("Nothing yet").hasNot("INV-1")
	// What a viewer was not shown at its time is not in the row's history either.
	unbilled := add("charge.created", time.Time{}, `{"charge_id":"ch_2","client_id":"cl_1","date":"2026-10-03","category":"tolls","kind":"service_fee","period":"2026-10","billed_to_client":false,"amount":"7.00","currency":"EUR"}`)
	add("charge.recorded", time.Time{}, `{"charge_id":"ch_2","client_id":"cl_1","date":"2026-10-03","category":"tolls","kind":"service_fee","period":"2026-10","amount":"7.00","currency":"EUR"}`)
	admin.get("/data/charges/ch_2").has("charge.<wbr>created", unbilled, "charge.<wbr>recorded")
	viewer.get("/data/charges/ch_2").has("charge.<wbr>recorded").hasNot("charge.<wbr>created", unbilled)
	add("charge.deleted", time.Time{}, `{"charge_id":"ch_1"}`)
	viewer.get("/data/charges/ch_1").has("was removed")
	viewer.get("/data/clients?at=" + web.FormatCursor(&readapi.Place{Position: 1, ID: "\x00"})).status(http.StatusSeeOther)
	viewer.get("/data/charges").hasNot("parking")
}

// TestRowsBesideARow: the page of a row has what belongs to it: a client's packages, the movements of
// credit with their signs, an invoice's credit notes, and what a contractor was paid.
func TestRowsBesideARow(t *testing.T) {
	t.Parallel()
	s := setup(t)
	add := s.projecting()
	add("client.recorded", time.Time{}, `{"client_id":"cl_1","name":"Northwind Clinic"}`)
	add("client.recorded", time.Time{}, `{"client_id":"cl_2","name":"Ada Clinic"}`)
	add("contractor.recorded", time.Time{}, `{"contractor_id":"co_1","name":"Rosa Tran"}`)
	add("contractor.recorded", time.Time{}, `{"contractor_id":"co_2","name":"Olena Koval"}`)
	add("invoice.recorded", time.Time{}, invoiceOf)
	issued := s.clock.Now()
	add("invoice.issued", issued, `{"invoice_id":"in_1","invoice_number":"D-1","amount":"1275.71"}`)
	add("credit.topped_up", time.Time{}, `{"credit_id":"cr_1","client_id":"cl_1","amount":"1200.00","currency":"EUR","package":{"package_id":"pk_10","service":"Occupational therapy","hours":10,"expires_at":"2027-01-31"}}`)
	add("credit.topped_up", time.Time{}, `{"credit_id":"cr_2","client_id":"cl_2","amount":"50.00","currency":"CHF"}`)
	add("credit.applied", time.Time{}, `{"credit_id":"cr_3","client_id":"cl_1","invoice_id":"in_1","amount":"360.00","package_id":"pk_10","hours":3}`)
	add("invoice.reversed", time.Time{}, `{"invoice_id":"in_1"}`)
	note := func(id, client, source string) string {
		return fmt.Sprintf(`{"invoice_id":%q,"invoice_number":%q,"client_id":%q,"period":"2026-10","amount":"12.30","currency":"EUR","kind":"post_payment","source_invoice_id":%q}`, id, strings.ToUpper(id), client, source)
	}
	add("credit_note.issued", time.Time{}, note("cn_1", "cl_1", "in_1"))
	for i := range 120 { // more than a page
		add("credit_note.issued", time.Time{}, note(fmt.Sprintf("cn_other%d", i), "cl_1", "in_other"))
	}
	for i, amount := range []string{"998.59", "1.41"} {
		add("payout.paid", time.Time{}, fmt.Sprintf(`{"payment_id":"pm_%d","invoice_id":"in_1","contractor_id":"co_1","amount":%q,"currency":"EUR","source":"bank"}`, i, amount))
	}
	add("payout.paid", time.Time{}, `{"payment_id":"pm_other","contractor_id":"co_2","amount":"7.00","currency":"EUR","source":"bank"}`)
	admin, viewer := s.signIn(acme, session.Admin), s.signIn(acme, session.Viewer)

	client := viewer.get("/data/clients/cl_1").has("Packages", "pk_10", "Occupational therapy", "1,200.00", "840.00", "2027-01-31", "active",
		`&#43;1,200.00 <span class="muted">EUR</span>`, `−360.00 <span class="muted">EUR</span>`, `href="/data/invoices?client_id=cl_1&amp;open=true">Open invoices`)
	client.hasNot("50.00")
	viewer.get("/data/clients/cl_2").has("Client credit", "50.00").hasNot("Packages")
	viewer.get("/data/credit-history").has(`&#43;50.00 <span class="muted">CHF</span>`, `−360.00 <span class="muted">EUR</span>`)
	viewer.get("/files/credit-history.csv").has("-360.00", ",50.00,").hasNot("−")
	viewer.get("/data/credits").has(`840.00`, "EUR", "CHF").hasNot("pk_10")

	invoice := viewer.get("/data/invoices/in_1").has("Credit notes", `href="/data/invoices/cn_1"`, "CN_1").hasNot("cn_other")
	// When a document was issued has a narrow column: how long ago, and the moment in full on hover.
	invoice.has(`title="`+issued.UTC().Format("2006-01-02 15:04:05 UTC")+`" data-form="when"`, `1,275.71 <span class="muted">EUR</span>`)
	viewer.get("/data/invoices/cn_1").has("The invoice that it credits", `href="/data/invoices/in_1"`, "INV-1").hasNot("Credit notes")
	viewer.get("/data/invoices/cn_other1").hasNot("The invoice that it credits")

	admin.get("/data/contractors/co_1").has("Payouts", "998.59", "1.41", "In all: <strong>1,000.00 EUR</strong>", `href="/data/payments?by=contractor&amp;direction=paid_to_contractor"`).hasNot("7.00")
	viewer.get("/data/contractors/co_1").hasNot("ayout", "998.59", "1,000.00")
	s.exec(`ALTER TABLE client_credit RENAME TO gone`)
	viewer.get("/data/credit-history").status(http.StatusOK).has("&#43;50.00").hasNot("CHF")
}

// TestDataPages: older and newer pages have every row once, with and without filters, and a page whose
// place has moved away leads to the first one.
func TestDataPages(t *testing.T) {
	t.Parallel()
	s := setup(t)
	add := s.projecting()
	const n = 120
	for i := range n {
		at := time.Time{}
		add("charge.recorded", at, fmt.Sprintf(`{"charge_id":"ch_%03d","client_id":"cl_%d","date":"2026-%02d-02","category":"c","kind":"service_fee","billed_to_client":true,"status":"approved","amount":"1.00","currency":"EUR","period":"2026-10"}`, i, i%2, 1+i%12))
	}
	p := s.signIn(acme, session.Viewer)
	row, older, newer := regexp.MustCompile(`href="/data/charges/(ch_\d+)"`), regexp.MustCompile(`href="([^"]+)">Older`), regexp.MustCompile(`href="([^"]+)">Newer`)
	page := func(address string) (ids []string, back, on string) {
		body := p.get(address).status(http.StatusOK).body
		for _, m := range row.FindAllStringSubmatch(body, -1) {
			ids = append(ids, m[1])
		}
		if m := newer.FindStringSubmatch(body); m != nil {
			back = html.UnescapeString(m[1])
		}
		if m := older.FindStringSubmatch(body); m != nil {
			on = html.UnescapeString(m[1])
		}
		return ids, back, on
	}
	for _, c := range []struct {
		query string
		match func(i int) bool
	}{
		{"", func(int) bool { return true }},
		{"?client_id=cl_1", func(i int) bool { return i%2 == 1 }},
		{"?date_from=2026-03-01&date_to=2026-11-30", func(i int) bool { return i%12 >= 2 && i%12 <= 10 }},
		{"?period=2026-10", func(int) bool { return true }},
	} {
		var want []string
		for i := n - 1; i >= 0; i-- {
			if c.match(i) {
				want = append(want, fmt.Sprintf("ch_%03d", i))
			}
		}
		var got []string
		ids, back, on := page("/data/charges" + c.query)
		if back != "" {
			t.Errorf("%s: the first page leads to %s", c.query, back)
		}
		pages := [][]string{ids}
		for got = ids; on != ""; got = append(got, ids...) {
			ids, back, on = page(on)
			pages = append(pages, ids)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", c.query, got, want)
		}
		for i := len(pages) - 2; i >= 0; i-- {
			if ids, back, _ = page(back); !slices.Equal(ids, pages[i]) {
				t.Errorf("%s: back to page %d: %q, want %q", c.query, i, ids, pages[i])
			}
		}
		if back != "" {
			t.Errorf("%s: newer than the first page is %s", c.query, back)
		}
	}
	if to := p.get("/data/charges?at=nonsense").to(); to != "/data/charges" {
		t.Errorf("a wrong place leads to %s", to)
	}
}

// TestManyPayoutsOfAContractor: the contractor's page has the newest payouts, says that there are more,
// and adds up all of them.
func TestManyPayoutsOfAContractor(t *testing.T) {
	t.Parallel()
	s := setup(t)
	add := s.projecting()
	add("contractor.recorded", time.Time{}, `{"contractor_id":"co_1","name":"Rosa Tran"}`)
	payout := func(i int, amount string) {
		add("payout.paid", time.Time{}, fmt.Sprintf(`{"payment_id":"pm_%03d","contractor_id":"co_1","amount":%q,"currency":"EUR","source":"bank"}`, i, amount))
	}
	for i := range route.MaxLimit {
		payout(i, "1.00")
	}
	admin := s.signIn(acme, session.Admin)
	admin.get("/data/contractors/co_1").has("In all: <strong>100.00 EUR</strong>").hasNot("There are more")
	payout(route.MaxLimit, "7.07")
	admin.get("/data/contractors/co_1").has("pm_100", "7.07", "pm_001", "These are the newest 100. There are more.", "In all: <strong>107.07 EUR</strong>").hasNot("pm_000")
}

// TestSearch finds what people name, and nothing that their role does not see.
func TestSearch(t *testing.T) {
	t.Parallel()
	s := setup(t)
	add := s.projecting()
	add("client.recorded", time.Time{}, `{"client_id":"cl_1","name":"Світлана \"Північ\" Clinic"}`)
	add("client.recorded", time.Time{}, `{"client_id":"cl_2","name":"Ivy Clinic"}`)
	add("client.recorded", time.Time{}, `{"client_id":"cl_3","name":"ZÜRICH West (Côte d’Or)"}`)
	add("contractor.recorded", time.Time{}, `{"contractor_id":"co_1","name":"Rosa Tran"}`)
	add("invoice.recorded", time.Time{}, invoiceOf)
	add("invoice.issued", time.Time{}, `{"invoice_id":"in_1","invoice_number":"INV-1-S","amount":"10.00","is_supplemental":true}`)
	add("payout.paid", time.Time{}, `{"payment_id":"pm_1","invoice_id":"in_1","contractor_id":"co_1","amount":"998.59","currency":"EUR","source":"bank"}`)
	event := add("invoice.reversed", time.Time{}, `{"invoice_id":"in_1"}`)
	admin, viewer := s.signIn(acme, session.Admin), s.signIn(acme, session.Viewer)
	for text, want := range map[string]string{
		"in_1": "/data/invoices/in_1", "INV-1": "/data/invoices/in_1", "cl_2": "/data/clients/cl_2", "rosa tran": "/data/contractors/co_1", "TRAN": "/data/contractors/co_1",
		"світлана": "/data/clients/cl_1", `"Північ"`: "/data/clients/cl_1", " Ivy ": "/data/clients/cl_2", event: "/events/" + event, "req_1": "/requests?find=req_1",
		"inv-1": "/data/invoices/in_1", "INV-1-S": "/data/invoices/in_1", "inv-1-s": "/data/invoices/in_1",
		"zurich": "/data/clients/cl_3", "Zürich  west": "/data/clients/cl_3", "(Côte d'or)": "/data/clients/cl_3", "СВІТЛАНА": "/data/clients/cl_1",
	} {
		if to := viewer.get("/search?q=" + url.QueryEscape(text)).to(); to != want {
			t.Errorf("%s leads to %s, want %s", text, to, want)
		}
	}
	viewer.get("/search?q=clinic").has("Clients", "/data/clients/cl_1", "/data/clients/cl_2", `value="clinic"`)
	if to := admin.get("/search?q=pm_1").to(); to != "/data/payments/pm_1" {
		t.Errorf("an admin is led to %s", to)
	}
	for _, none := range []string{"pm_1", "status", "nobody", strings.Repeat("clinic", 20), "%", ".", `\`, "%00", "INV-2-S"} {
		viewer.get("/search?q=" + url.QueryEscape(none)).status(http.StatusOK).has("No results for “")
	}
	s.signIn(beta, session.Admin).get("/search?q=in_1").has("No results for “")
	viewer.get("/search").has("Type an ID")
}

// TestForgetting: an admin forgets a client by typing its id. Nobody else can, and nothing else is
// forgotten.
func TestForgetting(t *testing.T) {
	t.Parallel()
	s := setup(t)
	add := s.projecting()
	add("client.recorded", time.Time{}, `{"client_id":"cl_1","name":"Northwind Clinic"}`)
	add("client.recorded", time.Time{}, `{"client_id":"cl_2","name":"Ivy Clinic"}`)
	add("contractor.recorded", time.Time{}, `{"contractor_id":"co_1","name":"Rosa Tran","email":"rosa@example.com"}`)
	add("invoice.recorded", time.Time{}, invoiceOf)
	admin, viewer := s.signIn(acme, session.Admin), s.signIn(acme, session.Viewer)
	const page, form = "/data/clients/cl_1", "/data/clients/cl_1/forget"
	viewer.get(page).hasNot("Forget this")
	admin.get(page).has(`href="` + form + `"`)
	admin.get(form).has("Forget this client?", "Northwind Clinic", "Type the client’s ID, cl_1")
	viewer.get(form).status(http.StatusForbidden)
	viewer.post(form, url.Values{"typed": {"cl_1"}}).status(http.StatusForbidden)
	s.signIn(beta, session.Admin).post(form, url.Values{"typed": {"cl_1"}}).status(http.StatusNotFound)
	admin.post(form, url.Values{"typed": {"cl_2"}}).status(http.StatusUnprocessableEntity).has("Type cl_1, to be sure")
	admin.post(form, url.Values{"typed": {"cl_1"}, "reason": {strings.Repeat("x", 5000)}}).status(http.StatusUnprocessableEntity).has("4096")
	for _, none := range []string{"/data/invoices/in_1/forget", "/data/clients/cl_none/forget"} {
		admin.get(none).status(http.StatusNotFound)
	}
	if to := admin.post(form, url.Values{"typed": {"cl_1"}, "reason": {"Request of 28 November"}}).to(); to != page+"?did=forgotten" {
		t.Fatalf("it leads to %s", to)
	}
	s.notifier.Notify(eventlog.TopicAppended, acme)
	testkit.Eventually(t, func() error {
		if strings.Contains(admin.get(page).status(http.StatusOK).body, "Northwind") {
			return errors.New("the name is still there")
		}
		return nil
	})
	admin.get(page+"?did=forgotten").has("The deletion has begun", "client.<wbr>forgotten")
	admin.get("/data/invoices/in_1").has("INV-1", "1,275.71").hasNot("Northwind")
	admin.get("/data/clients/cl_2").has("Ivy Clinic")
	admin.get("/audit").has("Forgot a person", "client cl_1", "admin@acme.example")
	admin.post("/data/contractors/co_1/forget", url.Values{"typed": {"co_1"}}).to()
}
