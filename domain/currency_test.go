package domain_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Amounts of two currencies are never added (docs/contract/log.md, "Client
// credit"): each case appends entries one after the other and names the anomalies
// and what is left of credit and invoice.
func TestOneCurrencyACredit(t *testing.T) {
	t.Parallel()
	topUp := func(id, amount, currency string) string {
		return fmt.Sprintf(`"credit.topped_up","data":{"credit_id":%q,"client_id":"c","amount":%q,"currency":%q}`, id, amount, currency)
	}
	move := func(typ, id, invoice, amount string) string {
		return fmt.Sprintf(`%q,"data":{"credit_id":%q,"client_id":"c","invoice_id":%q,"amount":%q}`, typ, id, invoice, amount)
	}
	invoice := func(currency string) string {
		return fmt.Sprintf(`"invoice.recorded","data":{"invoice_id":"i","number":"N","client_id":"c","period":"2026-10","gross_amount":"9.00","currency":%q}`, currency)
	}
	for name, c := range map[string]struct {
		entries                   []string
		anomalies                 []string
		general, currency, netDue string
		moves                     int
	}{
		"the first top-up gives the currency": {
			entries: []string{topUp("r1", "5.00", "EUR"), topUp("r2", "1.00", "EUR")}, general: "6.00", currency: "EUR", moves: 2,
		},
		"a top-up in another": {
			entries: []string{topUp("r1", "5.00", "EUR"), topUp("r2", "1.00", "USD")}, anomalies: []string{"wrong_currency"},
			general: "5.00", currency: "EUR", moves: 1,
		},
		"it stays when nothing is left": {
			entries:   []string{topUp("r1", "5.00", "EUR"), invoice("EUR"), move("credit.applied", "r2", "i", "5.00"), topUp("r3", "1.00", "USD")},
			anomalies: []string{"wrong_currency"}, general: "0.00", currency: "EUR", netDue: "4.00", moves: 2,
		},
		"a repeat is no top-up": {
			entries:   []string{topUp("r1", "5.00", "EUR"), topUp("r1", "1.00", "USD")},
			anomalies: []string{"repeat"}, general: "5.00", currency: "EUR", moves: 1,
		},
		"applied to an invoice of another": {
			entries:   []string{topUp("r1", "5.00", "EUR"), invoice("USD"), move("credit.applied", "r2", "i", "1.00")},
			anomalies: []string{"wrong_currency"}, general: "5.00", currency: "EUR", netDue: "9.00", moves: 1,
		},
		"taken back from an invoice of another": {
			entries:   []string{topUp("r1", "5.00", "EUR"), invoice("USD"), move("credit.taken_back", "r2", "i", "1.00")},
			anomalies: []string{"wrong_currency"}, general: "5.00", currency: "EUR", netDue: "9.00", moves: 1,
		},
		"an unknown invoice has no currency": {
			entries:   []string{topUp("r1", "5.00", "EUR"), move("credit.applied", "r2", "none", "1.00")},
			anomalies: []string{"unknown_object"}, general: "4.00", currency: "EUR", moves: 2,
		},
		"a credit has none before its first top-up": {
			entries:   []string{invoice("USD"), move("credit.taken_back", "r1", "i", "1.00"), topUp("r2", "5.00", "EUR")},
			anomalies: []string{"overdrawn"}, general: "6.00", currency: "EUR", netDue: "9.00", moves: 2,
		},
		"an invoice that credit was applied to keeps its currency": {
			entries:   []string{topUp("r1", "5.00", "EUR"), invoice("EUR"), move("credit.applied", "r2", "i", "1.00"), invoice("USD")},
			anomalies: []string{"wrong_currency"}, general: "4.00", currency: "EUR", netDue: "8.00", moves: 2,
		},
		"one that has none applied may change it": {
			entries: []string{
				topUp("r1", "5.00", "EUR"), invoice("EUR"), move("credit.applied", "r2", "i", "1.00"),
				move("credit.taken_back", "r3", "i", "1.00"), invoice("USD"),
			},
			general: "5.00", currency: "EUR", netDue: "9.00", moves: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lines []string
			for i, e := range c.entries {
				lines = append(lines, fmt.Sprintf(`{"workspace_id":"w","id":"e%d","created_at":"2026-10-02T09:15:00Z","type":%s}`, i, e))
			}
			s := domain.NewState()
			for _, e := range entriesOf(t, lines) {
				s.Apply(&e)
			}
			var anomalies []string
			for _, a := range s.Anomalies {
				anomalies = append(anomalies, string(a.Reason))
			}
			if !slices.Equal(anomalies, c.anomalies) {
				t.Errorf("anomalies %v, want %v", anomalies, c.anomalies)
			}
			credit := s.Credits.Get("c")
			if got := credit.General.String(); got != c.general || credit.Currency != c.currency || s.CreditMoves.Len() != c.moves {
				t.Errorf("%s %s after %d moves, want %s %s after %d", got, credit.Currency, s.CreditMoves.Len(), c.general, c.currency, c.moves)
			}
			if i := s.Invoices.Get("i"); i != nil && i.NetDue.String() != c.netDue {
				t.Errorf("%s due, want %s", i.NetDue, c.netDue)
			}
		})
	}
}
