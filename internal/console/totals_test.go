package console

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
)

// grouped returns the rows of the table of grouped totals of a page, each as its texts.
func grouped(body string) (rows []string) {
	_, table, _ := strings.Cut(body, `id="grouped"`)
	table, _, _ = strings.Cut(table, "</section>")
	_, table, _ = strings.Cut(table, "<tbody>")
	for row := range strings.SplitSeq(table, "</tr>") {
		texts := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(strings.ReplaceAll(row, "</t", " </t"), "")
		if row = strings.Join(strings.Fields(texts), " "); strings.Contains(row, "EUR") {
			rows = append(rows, row)
		}
	}
	return rows
}

// TestTotalsByGroup: totals by all that the API has, and the unpaid by age, with what the person may see.
func TestTotalsByGroup(t *testing.T) {
	t.Parallel()
	s := setup(t)
	add := s.projecting()
	add("client.recorded", time.Time{}, `{"client_id":"cl_1","name":"Zed <b>Clinic</b>"}`)
	add("client.recorded", time.Time{}, `{"client_id":"cl_2","name":"Ada Clinic"}`)
	add("contractor.recorded", time.Time{}, `{"contractor_id":"co_1","name":"Rosa Tran"}`)
	add("invoice.recorded", time.Time{}, invoiceOf)
	add("invoice.recorded", time.Time{}, `{"invoice_id":"in_2","number":"INV-2","client_id":"cl_2","period":"2026-09","gross_amount":"0.30","currency":"EUR"}`)
	add("invoice.issued", time.Time{}, `{"invoice_id":"in_2","invoice_number":"D-2","amount":"0.30"}`)
	add("invoice.sent", time.Time{}, `{"invoice_id":"in_2"}`)
	add("time_entry.recorded", time.Time{}, timeEntryOf)
	add("payment.confirmed", time.Time{}, `{"payment_id":"pm_in","client_id":"cl_1","amount":"1000.00","currency":"EUR","source":"bank"}`)
	add("payout.paid", time.Time{}, `{"payment_id":"pm_1","contractor_id":"co_1","amount":"998.59","currency":"EUR","source":"bank"}`)
	viewer, admin := s.signIn(acme, session.Viewer), s.signIn(acme, session.Admin)
	for address, want := range map[string][]string{
		"invoices?by=month":                  {"October 2026 EUR invoice no 1 1,275.71 0.00 1,275.71", "September 2026 EUR invoice no 1 0.30 0.00 0.30"},
		"invoices?by=client":                 {"Ada Clinic EUR invoice no 1 0.30 0.00 0.30", "Zed &lt;b&gt;Clinic&lt;/b&gt; EUR invoice no 1 1,275.71 0.00 1,275.71"},
		"invoices?by=contractor":             {"— EUR invoice no 1 0.30 0.00 0.30", "Rosa Tran EUR invoice no 1 1,275.71 0.00 1,275.71"},
		"invoices?by=status":                 {"ready to send EUR invoice no 1 1,275.71 0.00 1,275.71", "sent EUR invoice no 1 0.30 0.00 0.30"},
		"invoices?by=client&open=true":       {"Ada Clinic EUR invoice no 1 0.30 0.00 0.30"},
		"time-entries?by=client":             {"Zed &lt;b&gt;Clinic&lt;/b&gt; EUR 1 7.5 1,275.71"},
		"payments?by=client":                 {"Zed &lt;b&gt;Clinic&lt;/b&gt; EUR received from client 1 1,000.00"},
		"invoices?by=nonsense":               nil,
		"payments?by=status":                 nil,
		"credits?by=client":                  nil,
		"invoices?by=client&date_from=wrong": nil,
	} {
		if got := grouped(viewer.get("/data/" + address).body); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("%s has %q, want %q", address, got, want)
		}
	}
	viewer.get("/data/invoices").has(`href="/data/invoices?by=month">By month`, "By client", "By contractor", "By status", "Unpaid by age").hasNot("In all")
	viewer.get("/data/invoices?by=client&open=true").has(`aria-current="true">By client`, `href="/data/invoices?client_id=cl_2&amp;open=true" class="break">Ada Clinic`, "In all of this selection")
	viewer.get("/data/payments").has("By contractor").hasNot("By status", "by age")
	viewer.get("/data/credits").hasNot("By client")
	if got := grouped(admin.get("/data/payments?by=contractor").body); len(got) != 2 || !strings.Contains(got[1], "Rosa Tran EUR paid to contractor 1 998.59") {
		t.Errorf("payments by contractor are %q", got)
	}
	if got := grouped(s.signIn(beta, session.Admin).get("/data/invoices?by=client").body); got != nil {
		t.Errorf("another workspace has %q", got)
	}
	viewer.get("/data/clients/cl_2").has(`href="/data/invoices?client_id=cl_2&amp;open=true">Open invoices`)
	viewer.get("/data/invoices?client_id=cl_2&open=true").has("INV-2", "In all of this selection", "0.30").hasNot("INV-1")
}

// TestUnpaidByAge: each unpaid invoice has the age of its period.
func TestUnpaidByAge(t *testing.T) {
	t.Parallel()
	s := setup(t)
	add := s.projecting()
	add("client.recorded", time.Time{}, `{"client_id":"cl_1","name":"Ada Clinic"}`)
	for _, weeks := range []int{0, 1, 4, 7, 11, 20, 60} {
		year, week := s.clock.Now().UTC().AddDate(0, 0, -7*weeks).ISOWeek()
		add("invoice.recorded", time.Time{}, fmt.Sprintf(`{"invoice_id":"in_w%[1]d","number":"INV-%[1]d","client_id":"cl_1","period":"%d-W%02d","gross_amount":"%d.10","currency":"EUR"}`, weeks, year, week, 100+weeks))
		add("invoice.issued", time.Time{}, fmt.Sprintf(`{"invoice_id":"in_w%[1]d","invoice_number":"D-%[1]d","amount":"1.00"}`, weeks))
		add("invoice.sent", time.Time{}, fmt.Sprintf(`{"invoice_id":"in_w%d"}`, weeks))
	}
	add("invoice.recorded", time.Time{}, invoiceOf) // not sent, so not unpaid
	viewer := s.signIn(acme, session.Viewer)
	page := viewer.get("/data/invoices?by=age").has("Unpaid by age", "no due date", "Not paid yet", "Payments in part and later credit notes are not taken off")
	viewer.get("/data/invoices").hasNot("Payments in part")
	want := []string{"Period not over EUR 1 100.10", "1 to 30 days EUR 2 205.20", "31 to 60 days EUR 1 107.10", "61 to 90 days EUR 1 111.10", "Over 90 days EUR 2 280.20"}
	if got := grouped(page.body); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("%q, want %q", got, want)
	}
	viewer.get("/data/invoices?by=age&client_id=cl_none").has("There is nothing to add up")
	s.exec(`ALTER TABLE invoice RENAME TO gone`)
	viewer.get("/data/invoices?by=age").status(503)
}
