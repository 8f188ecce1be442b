package pages

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// TestManyGroups: a page shows the first groups by name, and says how many there are.
func TestManyGroups(t *testing.T) {
	t.Parallel()
	p := NewData(Data{})
	l, err := p.list("charges")
	if err != nil {
		t.Fatal(err)
	}
	var rows []record
	for i := maxGroups; i >= 0; i-- {
		rows = append(rows, record{"client": fmt.Sprintf(`{"id":"cl_%d","name":"Client %03d"}`, maxGroups-i, i), "currency": `"EUR"`, "count": "1", "amount": `"1.00"`})
	}
	var found totals
	found.show(l, nil, route.ByClient, rows)
	if len(found.Rows) != maxGroups || found.Rows[0][0].Lines[0] != "Client 000" || !strings.Contains(found.Hint, "The first 100 of 101 rows") {
		t.Errorf("%d rows from %v: %s", len(found.Rows), found.Rows[0][0].Lines, found.Hint)
	}
	found = totals{}
	found.show(l, nil, route.ByClient, rows[1:])
	if len(found.Rows) != maxGroups || found.Hint != "Declined charges are counted too: “By status” shows them apart." {
		t.Errorf("%d rows: %s", len(found.Rows), found.Hint)
	}
}

// TestBilledLessCreditNotes: what was billed in all stands below the totals of invoices, once credit
// notes took some of it back.
func TestBilledLessCreditNotes(t *testing.T) {
	t.Parallel()
	row := func(kind, currency, amount string) record {
		return record{"type": strconv.Quote(kind), "currency": strconv.Quote(currency), "gross_amount": amount}
	}
	rows := []record{row("invoice", "EUR", `"1000.10"`), row("package", "EUR", `"0.90"`), row("invoice", "CHF", `"5.00"`), row("invoice", "USD", "null")}
	if got := billed(rows); got != nil {
		t.Errorf("without credit notes: %s", got)
	}
	credit := row("credit_note", "EUR", `"1.01"`)
	if got := billed([]record{credit}); got != nil {
		t.Errorf("credit notes alone: %s", got)
	}
	if got, want := billed(append(rows, credit)), "Gross amounts less credit notes: 5.00 CHF, 999.99 EUR."; len(got) != 2 || got[0] != want {
		t.Errorf("%s", got)
	}
}

// TestHintsBelowTotals: they say what the sums include that a person may not expect, and only where it is
// in them.
func TestHintsBelowTotals(t *testing.T) {
	t.Parallel()
	p := NewData(Data{})
	const packages, declined = "Packages and the invoices that use them up are both counted.", "Declined time entries are counted too: “By status” shows them apart."
	invoice, sold := record{"type": `"invoice"`, "gross_amount": "null"}, record{"type": `"package"`, "gross_amount": "null"}
	for _, c := range []struct {
		slug, by string
		chosen   url.Values
		rows     []record
		want     []string
	}{
		{"invoices", "", nil, []record{invoice}, nil},
		{"invoices", "", nil, []record{invoice, sold}, []string{packages}},
		{"invoices", route.ByMonth, nil, []record{invoice, sold}, []string{"Each invoice counts in the month in which its period begins.", packages}},
		{"time-entries", "", nil, nil, []string{declined}},
		{"time-entries", route.ByContractor, url.Values{"period": {"2026-10"}}, nil, []string{declined}},
		{"time-entries", route.ByStatus, nil, nil, nil},
		{"time-entries", route.ByContractor, url.Values{"status": {"paid"}}, nil, nil},
		{"payments", "", nil, nil, nil},
	} {
		l, err := p.list(c.slug)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.hints(c.chosen, c.by, c.rows); !slices.Equal(got, c.want) {
			t.Errorf("%s by %q, of %v: %q, want %q", c.slug, c.by, c.chosen, got, c.want)
		}
	}
}
