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
		b.all("each list is a file", "main tbody tr", `(r) => r.querySelector("a[download]").innerText.startsWith("Download CSV")`)
		got := script[string](b, `fetch(document.querySelector("a[download][href$='/invoices.csv']").href).then((r) => r.text())`)
		if !strings.HasPrefix(got, "id,number,type,") || !strings.Contains(got, "\r\nin_1,") || strings.Contains(got, "margin_amount") != (role == session.Admin) {
			t.Errorf("%s gets %.400q", role, got)
		}
		b.judge("data, " + string(role))
		b.fits("data, " + string(role))
	}
}
