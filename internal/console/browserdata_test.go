//go:build outside

package console

import (
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
)

// TestDownloadsInTheBrowser finds the page of data, and takes a list as a file.
func TestDownloadsInTheBrowser(t *testing.T) {
	t.Parallel()
	s := setup(t)
	add := s.projecting()
	add("client.recorded", time.Time{}, `{"client_id":"cl_1","name":"Northwind Clinic"}`)
	add("invoice.recorded", time.Time{}, invoiceOf)
	for _, role := range []session.Role{session.Admin, session.Viewer} {
		b := s.enter(acme, role)
		b.visit("/")
		b.press("Data")
		b.sees("Time entries")
		b.all("each list is a file", "main tbody tr", `(r) => r.querySelectorAll("a[download]").length === 2`)
		got := script[string](b, `fetch(document.querySelector("a[download][href$='/invoices.csv']").href).then((r) => r.text())`)
		if !strings.HasPrefix(got, "ID,Number,Type,") || !strings.Contains(got, "\r\nin_1,") || strings.Contains(got, "Margin amount") != (role == session.Admin) {
			t.Errorf("%s gets %.400q", role, got)
		}
		b.judge("data, " + string(role))
		b.fits("data, " + string(role))
	}
}

// TestDataInTheBrowser goes from the search field to an invoice and its client, and judges the pages.
func TestDataInTheBrowser(t *testing.T) {
	t.Parallel()
	s := setup(t)
	add := s.projecting()
	add("client.recorded", time.Time{}, `{"client_id":"cl_1","name":"Northwind Clinic","contacts":[{"first_name":"Ada","last_name":"Moreau","email":"ada@example.com","is_primary":true,"receives_invoices":true}]}`)
	add("contractor.recorded", time.Time{}, `{"contractor_id":"co_1","name":"Rosa Tran"}`)
	add("invoice.recorded", time.Time{}, invoiceOf)
	add("time_entry.recorded", time.Time{}, timeEntryOf)
	add("invoice.issued", time.Time{}, `{"invoice_id":"in_1","invoice_number":"D-1","amount":"1275.71"}`)
	b := s.enter(acme, session.Admin)
	b.visit("/")
	b.write(`input[name="q"]`, "INV-1\r")
	b.sees("Documents")
	b.judge("an invoice")
	b.fits("an invoice")
	b.press("Northwind Clinic")
	b.sees("Ada")
	b.judge("a client")
	b.fits("a client")
	for _, path := range []string{"/data/invoices?date_from=2026-10-01", "/data/invoices?by=client", "/data/invoices?by=age", "/data/time-entries", "/data/clients", "/data/credits", "/search?q=none", "/events"} {
		b.visit(path)
		b.judge(path)
		b.fits(path)
	}
}
