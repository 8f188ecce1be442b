package domain_test

import (
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// written is the contract's catalogue, copied by hand: type, an exclamation
// mark when it is public, object and its id, then the fields in order, with a
// star when required, and their forms. "+money" is money that may be negative.
const written = `
client.recorded client client_id: client_id*=id name*=text status=text billing_status=text plan_name=text billing_address=address contacts=contacts contract_start_date=date contract_end_date=date
contractor.recorded contractor contractor_id: contractor_id*=id name*=text email=text status=text title=text
client.forgotten client client_id: client_id*=id reason=text
contractor.forgotten contractor contractor_id: contractor_id*=id reason=text
invoice.recorded invoice invoice_id: invoice_id*=id number*=text type=invoice|package draft=boolean client_id*=id contractor_id=id period*=period plan_name=text client_billing_status=not_ready|ready_to_send gross_amount*=money currency*=currency billed_externally=boolean delivered_value=money recognized_revenue=money billable_hours=hours contractor_pay_status=text payout_amount=money margin_amount=+money margin_percent=number margin_note=text
invoice.issued! invoice invoice_id: invoice_id*=id invoice_number*=text amount*=money issued_at=moment is_supplemental=boolean
invoice.sent! invoice invoice_id: invoice_id*=id invoice_number=text sent_at=moment
invoice.paid! invoice invoice_id: invoice_id*=id invoice_number=text paid_at=moment
invoice.voided! invoice invoice_id: invoice_id*=id invoice_number*=text
invoice.reversed! invoice invoice_id: invoice_id*=id
credit_note.issued! credit_note invoice_id: invoice_id*=id invoice_number*=text client_id*=id contractor_id=id period*=period amount*=money currency*=currency kind*=text source_invoice_id*=id
payout.sent_to_payroll invoice invoice_id: invoice_id*=id sent_at=moment
period.closed! period period: period*=period client_id=id
payment.confirmed payment payment_id: payment_id*=id invoice_id=id invoice_number=text client_id*=id amount*=money currency*=currency confirmed_at=moment source*=text
payout.paid! payout payment_id: payment_id*=id invoice_id=id invoice_number=text client_id=id contractor_id*=id amount*=money currency*=currency confirmed_at=moment source*=text
time_entry.recorded time_entry time_entry_id: time_entry_id*=id work_date*=date client_id*=id contractor_id*=id service*=text description=text hours*=hours session_count=integer is_flat_fee=boolean invoice_id=id period*=period currency*=currency bill_rate=money bill_amount=money pay_rate=money pay_amount=money pay_status=text
time_entry.approved! time_entry time_entry_id: time_entry_id*=id invoice_id=id
time_entry.declined! time_entry time_entry_id: time_entry_id*=id decline_outcome=text
time_entry.deleted! time_entry time_entry_id: time_entry_id*=id
charge.created! charge charge_id: charge_id*=id invoice_id=id client_id*=id contractor_id=id date*=date category*=text description=text kind*=text billed_to_client=boolean amount*=money currency*=currency status=in_review|approved|declined|sent|paid period*=period pay_rate=money pay_amount=money
charge.recorded charge charge_id: charge_id*=id invoice_id=id client_id*=id contractor_id=id date*=date category*=text description=text kind*=text billed_to_client=boolean amount*=money currency*=currency status=in_review|approved|declined|sent|paid period*=period pay_rate=money pay_amount=money
charge.deleted! charge charge_id: charge_id*=id billed_to_client=boolean
credit.topped_up credit credit_id: credit_id*=id client_id*=id amount*=money currency*=currency date=date kind=text note=text package=package
credit.applied! credit credit_id: credit_id*=id client_id*=id invoice_id*=id invoice_number=text amount*=money date=date note=text package_id=id hours=hours
credit.taken_back! credit credit_id: credit_id*=id client_id*=id invoice_id*=id invoice_number=text amount*=money date=date note=text package_id=id hours=hours
credit.expired credit credit_id: credit_id*=id client_id*=id package_id*=id date=date note=text
test.ping! webhook webhook_id: webhook_id*=id`

// writtenType is a line of written.
type writtenType struct {
	name, object, about string
	public              bool
	fields              []writtenField
}

type writtenField struct {
	name, form string
	required   bool
}

func writtenTypes() []writtenType {
	var list []writtenType
	for line := range strings.SplitSeq(strings.TrimSpace(written), "\n") {
		head, rest, _ := strings.Cut(line, ": ")
		words := strings.Fields(head)
		w := writtenType{name: strings.TrimSuffix(words[0], "!"), object: words[1], about: words[2], public: strings.HasSuffix(words[0], "!")}
		for field := range strings.FieldsSeq(rest + " invoice_id=id invoice_number=text client_id=id contractor_id=id period=period") {
			name, form, _ := strings.Cut(field, "=")
			f := writtenField{name: strings.TrimSuffix(name, "*"), form: form, required: strings.HasSuffix(name, "*")}
			if !slices.ContainsFunc(w.fields, func(g writtenField) bool { return g.name == f.name }) {
				w.fields = append(w.fields, f)
			}
		}
		list = append(list, w)
	}
	return list
}

// examples are values, as JSON: right ones and nearly right ones of every form.
// Each is tried for every field.
func examples() []string {
	return []string{
		`"x"`, `"X_-9"`, `"a b"`, `"ä"`, `""`, `" "`, `"\t\n"`, `"\r"`, `"\u0000"`, `"\u007f"`, `"\u009f"`, `"😀"`, `"` + strings.Repeat("x", 64) + `"`,
		`"` + strings.Repeat("x", 65) + `"`, `"` + strings.Repeat("é", 4096) + `"`, `"` + strings.Repeat("é", 4097) + `"`,
		`"EUR"`, `"eur"`, `"EU"`, `"EURO"`, `"ÉUR"`, `"0.00"`, `"12.50"`, `"-12.50"`, `"+1.00"`, `"-0.00"`, `"1"`, `"1.0"`, `"1.000"`, `"999999999999.99"`,
		`"1000000000000.00"`, `"1e2.00"`, `" 1.00"`, `"2026-10-02"`, `"2024-02-29"`, `"2026-02-29"`, `"2026-1-02"`, `"2026-10-32"`, `"2026-00-01"`,
		`"2026-10"`, `"2026-13"`, `"2026-W42"`, `"2026-W53"`, `"2025-W53"`, `"2026-W00"`, `"2026-BW21"`, `"2026-BW27"`, `"2025-BW27"`, `"2026-BW00"`, `"2026-w42"`,
		`"2026-10-02T09:15:00Z"`, `"2026-10-02T09:15:00.1239+02:00"`, `"2026-10-02T09:15:00"`, `"2026-10-02T09:15:60Z"`, `"2026-10-02 09:15:00Z"`, `"2026-10-02T24:00:00Z"`,
		`"invoice"`, `"package"`, `"credit_note"`, `"Invoice"`, `"not_ready"`, `"ready_to_send"`, `"sent"`, `"paid"`, `"in_review"`, `"approved"`, `"declined"`, `"voided"`,
		`"true"`, `true`, `false`, `null`, `0`, `-0`, `1`, `-1`, `7.5`, `-7.5`, `7.50000`, `0.0001`, `0.00001`, `-0.00001`, `1e3`, `1e-4`, `1e-5`, `123456789012`, `999999999999.9999`,
		`{}`, `[]`, `[{}]`, `[{},{"email":"e","is_primary":true}]`, `[[]]`, `[null]`, `["x"]`, `{"city":"c"}`, `{"city":null}`, `{"town":"c"}`, `{"line_1":"1","zip":"9"}`,
		`[{"is_primary":"true"}]`, `{"package_id":"g","service":"s"}`, `{"package_id":"g","service":"s","hours":1.5,"expires_at":"2027-01-31"}`,
		`{"package_id":"g","service":"s","hours":-1}`, `{"package_id":"g"}`, `{"service":"s"}`, `{"package_id":"g","service":"s","expires_at":"soon"}`,
	}
}

// fits reports whether a value has a form. It is written from the contract alone.
func fits(form string, v any) bool {
	text, isText := v.(string)
	number, isNumber := v.(json.Number)
	is := func(expression string) bool { return isText && regexp.MustCompile(expression).MatchString(text) }
	members := func(forms map[string]string, needed ...string) bool {
		object, ok := v.(doc)
		for name, member := range object {
			ok = ok && forms[name] != "" && fits(forms[name], member)
		}
		for _, name := range needed {
			ok = ok && object[name] != nil
		}
		return ok
	}
	decimals := func(most int, negative bool) bool {
		if !isNumber {
			return false
		}
		r := rat(number)
		scaled := new(big.Rat).Mul(r, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(most)), nil)))
		return scaled.IsInt() && (negative || r.Sign() >= 0)
	}
	switch form {
	case "id":
		return is(`^[A-Za-z0-9_-]{1,64}$`)
	case "text":
		return isText && utf8.RuneCountInString(text) <= 4096 && is(`^[^\x00-\x08\x0b-\x1f\x7f-\x{9f}]+$`)
	case "money":
		return is(`^\d{1,12}\.\d{2}$`)
	case "+money":
		return is(`^-?\d{1,12}\.\d{2}$`)
	case "currency":
		return is(`^[A-Z]{3}$`)
	case "date":
		_, err := time.Parse("2006-01-02", text)
		return err == nil && is(`^\d{4}-\d{2}-\d{2}$`)
	case "moment":
		_, err := time.Parse(time.RFC3339Nano, text)
		return err == nil && is(`^\d{4}-\d{2}-\d{2}T`)
	case "period":
		return is(`^\d{4}-(0[1-9]|1[0-2])$`) || is(`^\d{4}-W(0[1-9]|[1-4]\d|5[0-2])$`) || is(`^\d{4}-BW(0[1-9]|1\d|2[0-6])$`) || is(`^2026-(W53|BW27)$`)
	case "hours":
		return decimals(4, false)
	case "number":
		return decimals(4, true)
	case "integer":
		return decimals(0, false)
	case "boolean":
		return v == true || v == false
	case "address":
		return members(map[string]string{"line_1": "text", "line_2": "text", "city": "text", "state": "text", "zip": "text", "country": "text"})
	case "contact":
		return members(map[string]string{
			"first_name": "text", "last_name": "text", "title": "text", "email": "text", "phone": "text", "is_primary": "boolean", "receives_invoices": "boolean",
		})
	case "contacts":
		list, ok := v.([]any)
		for _, contact := range list {
			ok = ok && fits("contact", contact)
		}
		return ok
	case "package":
		return members(map[string]string{"package_id": "id", "service": "text", "hours": "hours", "expires_at": "date"}, "package_id", "service")
	}
	return isText && slices.Contains(strings.Split(form, "|"), text)
}

// TestCatalogueIsAsWritten compares the catalogue with written: types, objects,
// fields and their order, and for every field which values it takes.
func TestCatalogueIsAsWritten(t *testing.T) {
	t.Parallel()
	want := writtenTypes()
	if len(want) == 0 || len(domain.Types()) != len(want) {
		t.Fatalf("%d types, the contract has %d", len(domain.Types()), len(want))
	}
	for i, typ := range domain.Types() {
		w := want[i]
		if typ.Name != w.name || typ.Object != w.object || typ.Public != w.public {
			t.Errorf("type %d is %s about %s, public %v; want %s, %s, %v", i, typ.Name, typ.Object, typ.Public, w.name, w.object, w.public)
			continue
		}
		if len(typ.Fields) != len(w.fields) {
			t.Errorf("%s has %d fields, want %d", w.name, len(typ.Fields), len(w.fields))
			continue
		}
		samples := map[string]string{}
		for j := range typ.Fields {
			if f := &typ.Fields[j]; f.Name != w.fields[j].name || f.Required != w.fields[j].required {
				t.Errorf("%s: field %d is %s, required %v; want %s, %v", w.name, j, f.Name, f.Required, w.fields[j].name, w.fields[j].required)
			}
			samples[typ.Fields[j].Name] = sample(&typ.Fields[j])
		}
		for _, f := range w.fields {
			for _, value := range examples() {
				data := dataOf(typ, required, map[string]string{f.name: value})
				_, err := domain.NewDraft("w", w.name, []byte(data))
				if should := fits(f.form, parseDoc(`{"v":` + value + `}`)["v"]); (err == nil) != should {
					t.Errorf("%s: %s = %.80s: %v; it fits %s: %v", w.name, f.name, value, err, f.form, should)
				}
			}
		}
		if !w.public {
			continue
		}
		d, err := domain.NewDraft("w", w.name, []byte(dataOf(typ, required, nil)))
		if err != nil {
			t.Fatal(err)
		}
		shown := parseDoc(d.PublicData())
		if about := parseDoc(`{"v":` + samples[w.about] + `}`)["v"]; shown["object_type"] != w.object || shown["object_id"] != about {
			t.Errorf("%s shows %s, want it to be about %s %v", w.name, d.PublicData(), w.object, about)
		}
		for name := range shown {
			known := name == "object_type" || name == "object_id" || references[name] != nil && strings.Contains(d.Data, `"`+name+`"`)
			if !known {
				t.Errorf("%s shows %s, which the entry does not give", w.name, name)
			}
		}
	}
}
