package domain_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

func line(n int, typ, data string) string {
	return fmt.Sprintf(`{"workspace_id":"w","id":"e%d","type":%q,"created_at":"2026-10-02T09:15:00Z","data":%s}`, n, typ, data)
}

// TestSumsOfTheLargestAmounts adds up the largest amounts and hours that entries
// can give, in segments of one entry: the sums have more digits than an amount of
// an entry may have, and must still be read back.
func TestSumsOfTheLargestAmounts(t *testing.T) {
	t.Parallel()
	lines := []string{
		line(1, "invoice.recorded", `{"invoice_id":"i","number":"X","client_id":"c","period":"2026-10","gross_amount":"999999999999.99","currency":"EUR","margin_amount":"-999999999999.99","margin_percent":-999999999999.9999}`),
		line(2, "credit.topped_up", `{"credit_id":"r","client_id":"c","amount":"999999999999.99","currency":"EUR","package":{"package_id":"g","service":"s","hours":999999999999.9999}}`),
	}
	for n := 3; n < 300; n++ {
		lines = append(lines,
			line(2*n, "credit.taken_back", fmt.Sprintf(`{"credit_id":"b%d","client_id":"c","invoice_id":"i","amount":"999999999999.99","package_id":"g","hours":999999999999.9999}`, n)),
			line(2*n+1, "credit.topped_up", fmt.Sprintf(`{"credit_id":"t%d","client_id":"c","amount":"999999999999.99","currency":"EUR"}`, n)))
	}
	log := entriesOf(t, lines)
	st := newStore()
	for i := range log {
		st.fold(t, log[i:i+1])
	}
	st.equal(t, inOneGo(t, log), "an entry at a time against one go")
	credit := parseDoc(st.tables["credit"]["c"].parts.Row())
	pack := credit["packages"].([]any)[0].(doc)
	for what, c := range map[string][2]string{
		"general_credit":   {fmt.Sprint(credit["general_credit"]), "296999999999997.03"},
		"amount_remaining": {fmt.Sprint(pack["amount_remaining"]), "297999999999997.02"},
		"hours_remaining":  {fmt.Sprint(pack["hours_remaining"]), "297999999999999.9702"},
		"balance":          {fmt.Sprint(credit["balance"]), "594999999999994.05"},
	} {
		if c[0] != c[1] {
			t.Errorf("%s is %s, want %s", what, c[0], c[1])
		}
	}
}

// TestUnreadableEntries: each entry that only a newer version can read is an
// anomaly, and the fold goes on.
func TestUnreadableEntries(t *testing.T) {
	t.Parallel()
	log := entriesOf(t, []string{line(1, "test.ping", `{"webhook_id":"h"}`)})
	s := domain.NewState()
	for i, e := range []domain.Entry{
		{Type: "invoice.lost", Data: `{"invoice_id":"i"}`},
		{Type: "invoice.reversed", Data: `{"invoice_id":"i","new_field":1}`},
		{Type: "invoice.reversed", Data: `{}`},
		{Type: "invoice.reversed", Data: `not JSON`},
		{Type: "invoice.reversed", Data: ``},
		{Type: "client.recorded", Data: `{"client_id":"c","name":"n","contacts":[{"pager":"1"}]}`},
		log[0],
	} {
		e.WorkspaceID, e.ID, e.Position = "w", fmt.Sprint("e", i+1), int64(i+1)
		var n domain.Needs
		n.Add(&e)
		s.Apply(&e)
		if e.Type != "test.ping" && e.PublicEvent() != "" {
			t.Errorf("%s %s shows %s", e.Type, e.Data, e.PublicEvent())
		}
	}
	if s.Position != 7 || len(s.Anomalies) != 6 || s.Clients.Len() != 0 || s.Invoices.Len() != 0 {
		t.Fatalf("at %d with %v", s.Position, s.Anomalies)
	}
	for i, a := range s.Anomalies {
		if want := (domain.Anomaly{Position: int64(i + 1), EventID: fmt.Sprint("e", i+1), Reason: domain.Unreadable}); a != want {
			t.Errorf("%+v, want %+v", a, want)
		}
	}
}

// TestOrderOfFields compares the fields of each resource with their order in the
// service description; those that pay:read and margin:read open come last.
func TestOrderOfFields(t *testing.T) {
	t.Parallel()
	var lines []string
	for i, typ := range domain.Types() {
		if typ.Name == "credit_note.issued" || strings.HasSuffix(typ.Name, ".deleted") {
			continue
		}
		lines = append(lines, line(i, typ.Name, dataOf(typ, all, nil)))
	}
	st := inOneGo(t, entriesOf(t, lines))
	const period = "period period_label period_start period_end"
	for resource, want := range map[string][3]string{
		"invoice": {
			"id number type reversed client contractor " + period + " plan_name client_billing_status gross_amount credit_applied net_due currency billed_externally delivered_value recognized_revenue billable_hours sent_at paid_at period_closed issued_invoices credit_note updated_at",
			"contractor_pay_status payout_amount payout_sent_to_payroll_at", "margin_amount margin_percent margin_note",
		},
		"charge": {
			"id invoice_id client contractor date category description kind billed_to_client amount currency status issued_invoice_number " + period + " updated_at",
			"pay_rate pay_amount", "",
		},
		"time_entry": {
			"id work_date client contractor service description hours session_count is_flat_fee status decline_outcome invoice_id issued_invoice_number " + period + " currency updated_at bill_rate bill_amount",
			"pay_rate pay_amount pay_status", "",
		},
		"client":      {"id name status billing_status plan_name billing_address contacts contract_start_date contract_end_date updated_at", "", ""},
		"contractor":  {"id name email status title updated_at", "", ""},
		"payment":     {"id direction invoice_id invoice_number client amount currency confirmed_at source contractor", "", ""},
		"credit":      {"client balance general_credit currency packages updated_at", "", ""},
		"credit_move": {"id date kind amount invoice_id invoice_number note", "", ""},
	} {
		if len(st.tables[resource]) == 0 {
			t.Errorf("the stream makes no %s", resource)
		}
		for id, row := range st.tables[resource] {
			for part, fragment := range []string{row.parts.Base + "}", "{" + strings.TrimPrefix(row.parts.Pay, ",") + "}", "{" + strings.TrimPrefix(row.parts.Margin, ",") + "}"} {
				if got := strings.Join(memberNames(t, fragment), " "); got != want[part] {
					t.Errorf("%s %s\n got %s\nwant %s", resource, id, got, want[part])
				}
			}
		}
	}
}

// memberNames returns the names of an object's own members in their order.
func memberNames(t *testing.T, object string) []string {
	t.Helper()
	var names []string
	d := json.NewDecoder(strings.NewReader(object))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		t.Fatalf("no object: %s (%v)", object, err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name.(string))
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatalf("%s in %s: %v", name, object, err)
		}
	}
	return names
}
