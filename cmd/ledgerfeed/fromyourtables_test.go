package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// guideSQL runs a file of the guide "From your tables to entries", and returns its rows,
// each with its columns joined.
func guideSQL(t *testing.T, conn *pgx.Conn, name string) (rows []string) {
	t.Helper()
	text := read(t, "../../docs/guides/from-your-tables/"+name)
	results, err := conn.PgConn().Exec(t.Context(), text).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, r := range results {
		for _, row := range r.Rows {
			rows = append(rows, string(bytes.Join(row, []byte(" "))))
		}
	}
	return rows
}

// product is a database of a billing product, as the guide has it.
func product(t *testing.T) (url string, open func() *pgx.Conn) {
	t.Helper()
	url = testkit.EmptyDatabase(t)
	open = func() *pgx.Conn {
		t.Helper()
		conn := testkit.Must(pgx.Connect(t.Context(), url))(t)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	return url, open
}

// TestFromYourTables follows the guide: changes go on during the backfill, and none is missed or
// comes twice.
func TestFromYourTables(t *testing.T) {
	t.Parallel()
	shop, open := product(t)
	conn, late := open(), open()
	for _, name := range []string{"schema.sql", "data.sql", "mapping.sql", "outbox.sql", "change.sql"} {
		guideSQL(t, conn, name)
	}
	// A change that has begun when the backfill reads, and commits afterwards.
	tx := testkit.Must(late.Begin(t.Context()))(t)
	for _, sql := range []string{
		`INSERT INTO payments (invoice_id, amount_cents, method) VALUES (2, 10000, 'bank')`,
		`INSERT INTO watermill_ledgerfeed (uuid, payload, metadata, transaction_id)
		 SELECT gen_random_uuid(), entry, '{}', pg_current_xact_id() FROM ledgerfeed_entries WHERE source = 'payments' AND key = 3`,
	} {
		testkit.Must(tx.Exec(t.Context(), sql))(t)
	}
	lines := guideSQL(t, conn, "backfill.sql")
	testkit.Must(0, tx.Commit(t.Context()))(t)

	url := testkit.NewDatabase(t)
	succeed(t, url, "workspace", "create", "--id", "acme", "--name", "Acme Ltd")
	file := filepath.Join(t.TempDir(), "entries.ndjson")
	write(t, file, strings.Join(lines, "\n")+"\n")
	succeed(t, url, "append", "--check", file)
	for _, want := range []string{fmt.Sprintf("appended %d, skipped 0\n", len(lines)), fmt.Sprintf("appended 0, skipped %d\n", len(lines))} {
		if out := succeed(t, url, "append", file); out != want {
			t.Fatalf("append: %q, want %q", out, want)
		}
	}

	c := command(t, url, "serve", "--roles", "api,project,ingest", "--no-migrate")
	c.Env = append(c.Env, "LEDGERFEED_INGEST_URL="+shop)
	p := startProcess(t, c)
	base := strings.TrimSpace(p.await("for=api url="))
	r := newReader(t, url, base, "acme", endpointScopes+",pay:read")
	want := guideSQL(t, conn, "totals.sql")
	testkit.Eventually(t, func() error {
		if got := apiTotals(t, r); !slices.Equal(got, want) {
			return fmt.Errorf("the API has\n%s\nand the tables\n%s\nlogged:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), p.log)
		}
		return nil
	})
	if out := succeed(t, url, "export"); strings.Count(out, "\n") != len(lines)+1 {
		t.Errorf("the log has not each entry once:\n%s", out)
	}
	if out := succeed(t, url, "anomaly", "list", "--json"); strings.Contains(out, "acme") {
		t.Errorf("anomalies: %s", out)
	}
}

// TestReadmesEntries: the entries and the outbox statement of README are taken as they stand there.
func TestReadmesEntries(t *testing.T) {
	t.Parallel()
	readme := read(t, "../../README.md")
	block := func(begin, end string) string {
		t.Helper()
		_, rest, begun := strings.Cut(readme, begin)
		text, _, ended := strings.Cut(rest, end)
		if !begun || !ended {
			t.Fatalf("README has nothing between %q and %q", begin, end)
		}
		return text
	}
	entries := block("ledgerfeed append <<'END'\n", "END\n```")
	statement := block("```sql\n", "```")

	url := testkit.NewDatabase(t)
	succeed(t, url, "workspace", "create", "--id", "acme", "--name", "Acme Ltd")
	c := command(t, url, "append")
	c.Env = append(c.Env, "LEDGERFEED_CREATE_WORKSPACES=false")
	c.Stdin = strings.NewReader(entries)
	if r := runCommand(t, c); r.out != fmt.Sprintf("appended %d, skipped 0\n", strings.Count(entries, "\n")) {
		t.Fatalf("append: %+v", r)
	}

	shop, open := product(t)
	c = command(t, url, "serve", "--roles", "api,project,ingest", "--no-migrate")
	c.Env = append(c.Env, "LEDGERFEED_CREATE_WORKSPACES=false", "LEDGERFEED_INGEST_URL="+shop)
	p := startProcess(t, c)
	r := newReader(t, url, strings.TrimSpace(p.await("for=api url=")), "acme", endpointScopes)
	conn := open()
	testkit.Eventually(t, func() error { // serve makes the table
		_, err := conn.Exec(t.Context(), statement)
		return err
	})
	testkit.Eventually(t, func() error {
		var invoices struct {
			Data []struct {
				Number string `json:"number"`
				Status string `json:"client_billing_status"`
				NetDue string `json:"net_due"`
			} `json:"data"`
		}
		if err := json.Unmarshal(r.get("/v1/invoices"), &invoices); err != nil {
			return err
		}
		if got := fmt.Sprint(invoices.Data); got != "[{2026-001 sent 420.00}]" {
			return fmt.Errorf("the invoices are %s\nlogged:\n%s", got, p.log)
		}
		return nil
	})
	if out := succeed(t, url, "anomaly", "list", "--json"); strings.Contains(out, "acme") {
		t.Errorf("anomalies: %s", out)
	}
}

// apiTotals are the API's totals in the form of totals.sql.
func apiTotals(t *testing.T, r reader) (rows []string) {
	t.Helper()
	for _, list := range []string{"invoices", "payments", "time-entries"} {
		var totals struct{ Data []map[string]any }
		if err := json.Unmarshal(r.get("/v1/totals/"+list), &totals); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, sumsByCurrency(t, list, totals.Data)...)
	}
	return rows
}

// sumsByCurrency adds the groups that the API always separates, in whole cents.
func sumsByCurrency(t *testing.T, list string, data []map[string]any) (rows []string) {
	t.Helper()
	field := map[string]string{"invoices": "gross_amount", "payments": "amount", "time-entries": "bill_amount"}[list]
	counts, cents := map[string]int{}, map[string]int64{}
	for _, group := range data {
		currency, _ := group["currency"].(string)
		count, _ := group["count"].(float64)
		amount, _ := group[field].(string)
		var whole, part int64
		if _, err := fmt.Sscanf(amount, "%d.%2d", &whole, &part); err != nil {
			t.Fatalf("%s: %v", amount, err)
		}
		counts[currency] += int(count)
		cents[currency] += whole*100 + part
	}
	for currency, n := range counts {
		rows = append(rows, fmt.Sprintf("%s %s %d %d.%02d", list, currency, n, cents[currency]/100, cents[currency]%100))
	}
	slices.Sort(rows)
	return rows
}
