package domain

import (
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// TestWhatEntriesGiveOfPayIsMarked: a field of an entry that is about pay or margins has
// that part, as the field of the row has, or nothing of its type is for readers without it.
func TestWhatEntriesGiveOfPayIsMarked(t *testing.T) {
	t.Parallel()
	rows := map[string]jsonform.Part{}
	for _, fields := range [][]jsonform.FieldDescription{InvoiceFields(), ChargeFields(), TimeEntryFields()} {
		for i := range fields {
			rows[fields[i].Name] = max(rows[fields[i].Name], fields[i].Part)
		}
	}
	marked := 0
	for _, k := range catalogue {
		if k.head().pay {
			continue
		}
		for _, f := range k.descriptions() {
			about := strings.HasPrefix(f.Name, "pay_") || strings.HasPrefix(f.Name, "payout_") || strings.Contains(f.Name, "_pay_") || strings.HasPrefix(f.Name, "margin_")
			if about != (f.Part != Base) || f.Part != rows[f.Name] {
				t.Errorf("%s: %s has the part %d, that of rows %d", k.head().name, f.Name, f.Part, rows[f.Name])
			}
			if f.Part != Base {
				marked++
			}
		}
	}
	if marked < 10 {
		t.Errorf("%d fields are marked", marked)
	}
}

// TestGiven: an entry gives its fields in their order; a charge that is not billed to the
// client, and a payout, only to readers who may see pay.
func TestGiven(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ, data, want string
		payOnly         bool
	}{
		{"charge.created", `{"charge_id":"c","client_id":"cl","date":"2026-10-02","category":"a","kind":"b","amount":"1.00","currency":"EUR","period":"2026-10","pay_amount":"0.50"}`,
			`charge_id="c" client_id="cl" date="2026-10-02" category="a" kind="b" amount="1.00" currency="EUR" period="2026-10" pay_amount="0.50"`, false},
		{"charge.created", `{"charge_id":"c","client_id":"cl","date":"2026-10-02","category":"a","kind":"b","billed_to_client":false,"amount":"1.00","currency":"EUR","period":"2026-10"}`,
			`charge_id="c" client_id="cl" date="2026-10-02" category="a" kind="b" billed_to_client=false amount="1.00" currency="EUR" period="2026-10"`, true},
		{"payout.paid", `{"payment_id":"p","contractor_id":"co","amount":"1.00","currency":"EUR","source":"bank"}`, `payment_id="p" contractor_id="co" amount="1.00" currency="EUR" source="bank"`, true},
		{"invoice.sent", `{"invoice_id":"i"}`, `invoice_id="i"`, false},
		{"of.a_newer_version", `{"invoice_id":"i"}`, ``, false},
		{"invoice.sent", `{"invoice_id":7}`, ``, false},
	} {
		fields, payOnly := (&Entry{Type: c.typ, Data: c.data}).Given()
		var list []string
		for i := range fields {
			list = append(list, fields[i].Name+"="+fields[i].JSON)
		}
		if got := strings.Join(list, " "); got != c.want || payOnly != c.payOnly {
			t.Errorf("%s %s gives %s, %v", c.typ, c.data, got, payOnly)
		}
	}
}
