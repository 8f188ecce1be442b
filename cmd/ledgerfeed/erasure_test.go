//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/pgserver"
)

// planted is in every text about a person who is forgotten, and nowhere else.
const planted = "Pl4ntedP3rson"

// TestNothingIsLeftOfForgottenPeople plants a text in every field about people, reads it through the
// API, forgets all these people, and looks for it in every file of the data directory, in the log of
// the process and in its metrics.
func TestNothingIsLeftOfForgottenPeople(t *testing.T) {
	t.Parallel()
	people, others := 30, 4_000
	if testkit.Full() {
		people, others = 1_000, 994_000
	}
	server := pgserver.NewHost(t).Server("erasure", "fsync=off", "wal_recycle=off", "autovacuum=off", "min_wal_size=32MB", "shared_buffers=256MB")
	server.Initialize()
	server.Begin()
	server.Execute("postgres", "CREATE DATABASE ledgerfeed")
	url := server.URL(pgserver.Administrator, "ledgerfeed")
	serving := startProcess(t, command(t, url, "serve", "--roles", "api,project"))
	api, admin := strings.TrimSpace(serving.await("for=api url=")), strings.TrimSpace(serving.await("for=admin url="))

	dir := t.TempDir()
	var text, forgetting bytes.Buffer
	for i := range people {
		plant(&text, i)
		fmt.Fprintf(&forgetting, `{"workspace_id":"acme","id":"f%[1]d","type":"client.forgotten","data":{"client_id":"cl_p%[1]d"}}`+"\n", i)
		fmt.Fprintf(&forgetting, `{"workspace_id":"acme","id":"g%[1]d","type":"contractor.forgotten","data":{"contractor_id":"co_p%[1]d"}}`+"\n", i)
	}
	for i := range others {
		fmt.Fprintf(&text, `{"workspace_id":"acme","id":"o%d","type":"charge.recorded","data":{"charge_id":"ch_o%d","client_id":"cl_other","date":"2026-10-01","category":"x","description":"something else","kind":"k","amount":"1.00","currency":"EUR","period":"2026-10"}}`+"\n", i, i)
	}
	write(t, filepath.Join(dir, "entries.ndjson"), text.String())
	write(t, filepath.Join(dir, "forgetting.ndjson"), forgetting.String())
	succeed(t, url, "append", "--create-workspace", "--wait", "--timeout", "30m", filepath.Join(dir, "entries.ndjson"))
	reader := newCaller(t, url, api, "acme")
	read := func(path string) string {
		t.Helper()
		a, err := reader.get(path, "")
		if err != nil || a.status != 200 {
			t.Fatalf("%s: %+v, %v", path, a, err)
		}
		return string(a.body)
	}
	paths := []string{"/v1/clients?limit=100", "/v1/contractors?limit=100", "/v1/invoices?limit=100", "/v1/time-entries?limit=100", "/v1/charges?limit=100", "/v1/payments?limit=100", "/v1/clients/cl_p0/credit", "/v1/credits?limit=100", "/v1/credit-history?limit=100", "/v1/totals/invoices?group_by=client,contractor"}
	for _, path := range paths {
		if !strings.Contains(read(path), planted) {
			t.Errorf("%s does not show what was planted", path)
		}
	}
	server.Execute("ledgerfeed", "ANALYZE")
	succeed(t, url, "append", "--wait", "--timeout", "30m", filepath.Join(dir, "forgetting.ndjson"))
	// In full, several passes over a million positions, in slices.
	testkit.Within(t, 20*time.Minute, func() error {
		if n := pgserver.Query[int](server, "ledgerfeed", "SELECT count(*)::integer FROM log_forgotten WHERE ended_at IS NULL"); n > 0 {
			return fmt.Errorf("%d people are not forgotten yet", n)
		}
		return nil
	})
	for _, path := range paths {
		if strings.Contains(read(path), planted) {
			t.Errorf("%s still shows what was planted", path)
		}
	}
	succeed(t, url, "verify")
	_, metrics := bodyOf(t, admin+"/metrics")
	serving.stop()
	for what, said := range map[string]string{"the log": serving.log.String(), "the metrics": metrics} {
		if strings.Contains(said, planted) {
			t.Errorf("%s have what was planted", what)
		}
	}
	// What docs/operations/erasure.md says of the free space in files.
	for _, table := range []string{"log_detached", "client", "contractor", "invoice", "time_entry", "charge", "payment", "client_credit", "credit_move", "pg_statistic"} {
		server.Execute("ledgerfeed", "VACUUM (FULL) "+table)
	}
	for range 3 {
		server.Execute("ledgerfeed", "CHECKPOINT")
		server.Execute("ledgerfeed", "SELECT pg_switch_wal()")
	}
	server.Execute("ledgerfeed", "CHECKPOINT")
	server.Stop()
	files := 0
	err := filepath.WalkDir(server.Data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(planted)) {
			t.Errorf("%s has what was planted, %d times", path, bytes.Count(content, []byte(planted)))
		}
		return err
	})
	if err != nil || files < 100 {
		t.Errorf("looked at %d files: %v", files, err)
	}
}

// plant writes entries with a text in every field about a client and its contractor.
func plant(out *bytes.Buffer, i int) {
	name := fmt.Sprintf("%s%d", planted, i)
	for n, e := range []struct{ typ, data string }{
		{"client.recorded", `{"client_id":"cl_p%[1]d","name":"%[2]s","billing_address":{"line_1":"%[2]s"},"contacts":[{"first_name":"%[2]s","email":"%[2]s@example.com","phone":"%[2]s"}]}`},
		{"contractor.recorded", `{"contractor_id":"co_p%[1]d","name":"%[2]s","email":"%[2]s@example.com","title":"%[2]s"}`},
		{"invoice.recorded", `{"invoice_id":"in_p%[1]d","number":"X-%[1]d","client_id":"cl_p%[1]d","contractor_id":"co_p%[1]d","period":"2026-10","gross_amount":"1.00","currency":"EUR","margin_note":"%[2]s"}`},
		{"time_entry.recorded", `{"time_entry_id":"te_p%[1]d","work_date":"2026-10-01","client_id":"cl_p%[1]d","contractor_id":"co_p%[1]d","service":"s","description":"%[2]s","hours":1,"period":"2026-10","currency":"EUR"}`},
		{"charge.recorded", `{"charge_id":"ch_p%[1]d","client_id":"cl_p%[1]d","date":"2026-10-01","category":"x","description":"%[2]s","kind":"k","amount":"1.00","currency":"EUR","period":"2026-10"}`},
		{"credit.topped_up", `{"credit_id":"cr_p%[1]d","client_id":"cl_p%[1]d","amount":"1.00","currency":"EUR","note":"%[2]s"}`},
		{"payment.confirmed", `{"payment_id":"pa_p%[1]d","client_id":"cl_p%[1]d","amount":"1.00","currency":"EUR","source":"bank"}`},
		{"client.recorded", `{"client_id":"cl_p%[1]d","name":"%[2]s again"}`},
	} {
		fmt.Fprintf(out, `{"workspace_id":"acme","id":"p%d-%d","type":%q,"data":%s}`+"\n", i, n, e.typ, fmt.Sprintf(e.data, i, name))
	}
}
