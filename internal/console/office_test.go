//go:build office

package console

import (
	"encoding/csv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// asOpened returns what LibreOffice shows of a file, row by row: numbers and days in its own form.
func asOpened(t *testing.T, name, body string) [][]string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	// The filters' options: commas, quotes and UTF-8 (76), as it proposes for a file with a byte
	// order mark; written as it is shown.
	args := []string{
		"-env:UserInstallation=file://" + dir + "/profile", "--headless",
		"--convert-to", "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,true", "--outdir", filepath.Join(dir, "opened"), filepath.Join(dir, name),
	}
	if filepath.Ext(name) == ".csv" {
		args = slices.Insert(args, 2, "--infilter=Text - txt - csv (StarCalc):44,34,76,1")
	}
	c := exec.CommandContext(t.Context(), "soffice", args...)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	text := testkit.Must(os.ReadFile(filepath.Join(dir, "opened", strings.TrimSuffix(name, filepath.Ext(name))+".csv")))(t)
	r := csv.NewReader(strings.NewReader(string(text)))
	r.FieldsPerRecord = -1
	return testkit.Must(r.ReadAll())(t)
}

// TestLibreOfficeOpensTheFiles: names in any script stay what they are, no text becomes a formula,
// numbers are numbers and days are days.
func TestLibreOfficeOpensTheFiles(t *testing.T) {
	t.Parallel()
	s := setup(t)
	add := s.projecting()
	names := map[string]string{
		"cl_1": `=HYPERLINK("https://evil.example")`, "cl_2": `Олена "Північ", Ελληνική`, "cl_3": "株式会社\nGmbH; -1+1",
	}
	for _, id := range []string{"cl_1", "cl_2", "cl_3"} {
		add("client.recorded", time.Time{}, `{"client_id":"`+id+`","name":`+strconv.Quote(names[id])+`}`)
	}
	add("contractor.recorded", time.Time{}, `{"contractor_id":"co_1","name":"Rosa Tran"}`)
	add("invoice.recorded", time.Time{}, invoiceOf)
	add("time_entry.recorded", time.Time{}, timeEntryOf)
	admin := s.signIn(acme, session.Admin)
	for _, ext := range []string{".xlsx", ".csv"} {
		clients := asOpened(t, "clients"+ext, admin.get("/files/clients"+ext).body)
		if len(clients) != 4 {
			t.Fatalf("%s: %q", ext, clients)
		}
		for _, row := range clients[1:] {
			want := names[row[0]]
			if ext == ".csv" { // whose only way to keep a formula away is an apostrophe
				want = strings.NewReplacer(`=HYPERLINK`, `'=HYPERLINK`, "; -", "; '-").Replace(want)
			}
			if row[1] != want {
				t.Errorf("%s: %s is shown as %q, want %q", ext, row[0], row[1], want)
			}
		}
		invoices := asOpened(t, "invoices"+ext, admin.get("/files/invoices"+ext).body)
		amount := map[string]string{".xlsx": "1,275.71", ".csv": "1275.71"}[ext]
		for label, want := range map[string]string{"Amount": amount, "Period start": "2026-10-01", "Client ID": "cl_1"} {
			if got := invoices[1][slices.Index(invoices[0], label)]; got != want {
				t.Errorf("%s: %s is shown as %q, want %q", ext, label, got, want)
			}
		}
		if total := invoices[len(invoices)-1]; ext == ".xlsx" && (total[0] != "Total EUR invoice not reversed" || !slices.Contains(total, amount)) {
			t.Errorf("the last row is %q", total)
		}
	}
}
