package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// catalogue is the table of docs/contract/log.md, "Catalogue": the fields of each type in their order, as
// name, * when required, and form.
var catalogue = map[string]string{
	"client.recorded": `client_id* id, name* text, status text, billing_status text, plan_name text, billing_address address,
		contacts contacts, contract_start_date date, contract_end_date date`,
	"contractor.recorded": `contractor_id* id, name* text, email text, status text, title text`,
	"invoice.recorded": `invoice_id* id, number* text, type invoice|package, draft flag, client_id* id, contractor_id id,
		period* period, plan_name text, client_billing_status not_ready|ready_to_send, gross_amount* money, currency* currency,
		billed_externally flag, delivered_value money, recognized_revenue money, billable_hours hours, contractor_pay_status text,
		payout_amount money, margin_amount signed, margin_percent number, margin_note text`,
	"invoice.issued":   `invoice_id* id, invoice_number* text, amount* money, issued_at instant, is_supplemental flag`,
	"invoice.sent":     `invoice_id* id, invoice_number text, sent_at instant`,
	"invoice.paid":     `invoice_id* id, invoice_number text, paid_at instant`,
	"invoice.voided":   `invoice_id* id, invoice_number* text`,
	"invoice.reversed": `invoice_id* id`,
	"credit_note.issued": `invoice_id* id, invoice_number* text, client_id* id, contractor_id id, period* period, amount* money,
		currency* currency, kind* text, source_invoice_id* id`,
	"payout.sent_to_payroll": `invoice_id* id, sent_at instant`,
	"period.closed":          `period* period, client_id id`,
	"payment.confirmed": `payment_id* id, invoice_id id, invoice_number text, client_id* id, amount* money, currency* currency,
		confirmed_at instant, source* text`,
	"payout.paid": `payment_id* id, invoice_id id, invoice_number text, client_id id, contractor_id* id, amount* money,
		currency* currency, confirmed_at instant, source* text`,
	"time_entry.recorded": `time_entry_id* id, work_date* date, client_id* id, contractor_id* id, service* text, description text,
		hours* hours, session_count count, is_flat_fee flag, invoice_id id, period* period, currency* currency, bill_rate money,
		bill_amount money, pay_rate money, pay_amount money, pay_status text`,
	"time_entry.approved": `time_entry_id* id, invoice_id id`,
	"time_entry.declined": `time_entry_id* id, decline_outcome text`,
	"time_entry.deleted":  `time_entry_id* id`,
	"charge.created":      chargeFields,
	"charge.recorded":     chargeFields,
	"charge.deleted":      `charge_id* id, billed_to_client flag`,
	"credit.topped_up": `credit_id* id, client_id* id, amount* money, currency* currency, date date, kind text, note text,
		package package`,
	"credit.applied":    creditFields,
	"credit.taken_back": creditFields,
	"credit.expired":    `credit_id* id, client_id* id, package_id* id, date date, note text`,
}

const (
	chargeFields = `charge_id* id, invoice_id id, client_id* id, contractor_id id, date* date, category* text, description text,
		kind* text, billed_to_client flag, amount* money, currency* currency, status in_review|approved|declined|sent|paid,
		period* period, pay_rate money, pay_amount money`
	creditFields = `credit_id* id, client_id* id, invoice_id* id, invoice_number text, amount* money, date date, note text,
		package_id id, hours hours`
)

// references are the last fields of every type, except the ones that it lists itself.
const references = `invoice_id id, invoice_number text, client_id id, contractor_id id, period period`

// nested are the objects inside of data.
var nested = map[string]string{
	"address": `line_1 text, line_2 text, city text, state text, zip text, country text`,
	"contact": `first_name text, last_name text, title text, email text, phone text, is_primary flag, receives_invoices flag`,
	"package": `package_id* id, service* text, hours hours, expires_at date`,
}

// forms are the forms that a pattern can check.
var forms = map[string]*regexp.Regexp{
	"id":       regexp.MustCompile(`^"[A-Za-z0-9_-]{1,64}"$`),
	"money":    regexp.MustCompile(`^"(0|[1-9]\d{0,11})\.\d{2}"$`),
	"signed":   regexp.MustCompile(`^"-?(0|[1-9]\d{0,11})\.\d{2}"$`),
	"currency": regexp.MustCompile(`^"[A-Z]{3}"$`),
	"hours":    regexp.MustCompile(`^(0|[1-9]\d*)(\.\d{0,3}[1-9])?$`),
	"number":   regexp.MustCompile(`^(0|-?[1-9]\d*|-?(0|[1-9]\d*)\.\d{0,3}[1-9])$`),
	"count":    regexp.MustCompile(`^(0|[1-9]\d*)$`),
	"flag":     regexp.MustCompile(`^(true|false)$`),
}

type spec struct {
	name, form string
	required   bool
}

// specs reads a row of the catalogue.
func specs(row string) []spec {
	var out []spec
	for field := range strings.SplitSeq(row, ",") {
		words := strings.Fields(field)
		name, required := strings.CutSuffix(words[0], "*")
		out = append(out, spec{name, words[1], required})
	}
	return out
}

// checker checks data against the catalogue.
type checker struct {
	types  map[string][]spec
	nested map[string][]spec
}

func newChecker() *checker {
	c := &checker{types: map[string][]spec{}, nested: map[string][]spec{}}
	for typ, row := range catalogue {
		fields := specs(row)
		for _, ref := range specs(references) {
			if !slices.ContainsFunc(fields, func(f spec) bool { return f.name == ref.name }) {
				fields = append(fields, ref)
			}
		}
		c.types[typ] = fields
	}
	for name, row := range nested {
		c.nested[name] = specs(row)
	}
	return c
}

// data checks that the data of a type has its fields, in their order and forms, and
// is in canonical form.
func (c *checker) data(typ string, data []byte) error {
	fields, ok := c.types[typ]
	if !ok {
		return fmt.Errorf("unknown type")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil {
		return err
	}
	if !bytes.Equal(compact.Bytes(), data) {
		return fmt.Errorf("white space in %s", data)
	}
	return c.object(fields, data)
}

func (c *checker) object(fields []spec, data []byte) error {
	names, values, err := members(data)
	if err != nil {
		return err
	}
	next := 0
	for _, f := range fields {
		if next == len(names) || names[next] != f.name {
			if f.required {
				return fmt.Errorf("%s missing or out of order", f.name)
			}
			continue
		}
		if err := c.value(f.form, values[next]); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		next++
	}
	if next < len(names) {
		return fmt.Errorf("%s unknown or out of order", names[next])
	}
	return nil
}

func (c *checker) value(form string, raw json.RawMessage) error {
	bad := fmt.Errorf("%s is no %s", raw, form)
	if re := forms[form]; re != nil {
		if !re.Match(raw) {
			return bad
		}
		return nil
	}
	if fields := c.nested[form]; fields != nil {
		return c.object(fields, raw)
	}
	if form == "contacts" {
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return err
		}
		for _, item := range list {
			if err := c.object(c.nested["contact"], item); err != nil {
				return err
			}
		}
		return nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return bad
	}
	switch form {
	case "date":
		if d, err := time.Parse(time.DateOnly, s); err != nil || d.Format(time.DateOnly) != s {
			return bad
		}
	case "instant":
		if at, err := time.Parse(time.RFC3339, s); err != nil || at.UTC().Format("2006-01-02T15:04:05.000Z") != s {
			return bad
		}
	case "period":
		if _, _, err := periodDays(s); err != nil {
			return err
		}
	case "text":
		return checkText(s, raw)
	default: // the values themselves
		if !strings.Contains("|"+form+"|", "|"+s+"|") {
			return bad
		}
	}
	return nil
}

// checkText checks the form text, and that it is escaped as plain JSON is.
func checkText(s string, raw []byte) error {
	if n := utf8.RuneCountInString(s); n < 1 || n > 4096 || !utf8.ValidString(s) {
		return fmt.Errorf("%s: %d characters", raw, n)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 }) {
		return fmt.Errorf("%s: control characters", raw)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return err
	}
	if !bytes.Equal(bytes.TrimSpace(b.Bytes()), raw) {
		return fmt.Errorf("%s has escapes that JSON does not require", raw)
	}
	return nil
}

// members splits an object into its members, in their order.
func members(data []byte) (names []string, values []json.RawMessage, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, nil, fmt.Errorf("no object: %s", data)
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, nil, err
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, nil, err
		}
		names, values = append(names, name.(string)), append(values, raw)
	}
	return names, values, nil
}

var periodForm = regexp.MustCompile(`^(\d{4})-(BW|W|)(\d{2})$`)

// periodDays reads a period key with package time, independently of the code that
// writes it, and returns its first and last day.
func periodDays(key string) (first, last time.Time, err error) {
	m := periodForm.FindStringSubmatch(key)
	if m == nil {
		return first, last, fmt.Errorf("%s is no period", key)
	}
	var year, n int
	if _, err := fmt.Sscan(m[1], &year); err != nil {
		return first, last, err
	}
	if _, err := fmt.Sscan(strings.TrimPrefix(m[3], "0"), &n); err != nil {
		return first, last, err
	}
	if m[2] == "" {
		first = time.Date(year, time.Month(n), 1, 0, 0, 0, 0, time.UTC)
		if n < 1 || n > 12 {
			err = fmt.Errorf("%s is no month", key)
		}
		return first, first.AddDate(0, 1, -1), err
	}
	_, weeks := time.Date(year, 12, 28, 0, 0, 0, 0, time.UTC).ISOWeek()
	from, to := n, n
	if m[2] == "BW" {
		from, to = 2*n-1, min(2*n, weeks)
	}
	if from < 1 || from > weeks {
		return first, last, fmt.Errorf("%s does not exist", key)
	}
	monday := time.Date(year, 1, 4, 0, 0, 0, 0, time.UTC) // in week 1
	monday = monday.AddDate(0, 0, -(int(monday.Weekday())+6)%7)
	return monday.AddDate(0, 0, 7*(from-1)), monday.AddDate(0, 0, 7*to-1), nil
}

// The checker must refuse what is wrong.
func TestCheckerRefuses(t *testing.T) {
	t.Parallel()
	c := newChecker()
	for _, tc := range []struct{ typ, data string }{
		{"test.pong", `{}`},
		{"charge.deleted", `{}`},
		{"charge.deleted", `{"charge_id": "a"}`},
		{"charge.deleted", `{"charge_id":"a","charge_id":"a"}`},
		{"charge.deleted", `{"charge_id":"a","period":"2026-10","client_id":"c"}`},
		{"period.closed", `{"period":"2025-W53"}`},
		{"period.closed", `{"period":"2025-BW27"}`},
		{"period.closed", `{"period":"2026-13"}`},
		{"invoice.sent", `{"invoice_id":"a","sent_at":"2026-10-02T09:15:00Z"}`},
		{"invoice.sent", `{"invoice_id":"a","invoice_number":"\u003c"}`},
		{"invoice.issued", `{"invoice_id":"a","invoice_number":"1","amount":"1.5"}`},
		{"credit.applied", `{"credit_id":"a","client_id":"b","invoice_id":"c","amount":"1.00","hours":1.50}`},
	} {
		if err := c.data(tc.typ, []byte(tc.data)); err == nil {
			t.Errorf("%s %s: no error", tc.typ, tc.data)
		}
	}
	if err := c.data("period.closed", []byte(`{"period":"2026-W53","client_id":"c"}`)); err != nil {
		t.Error(err)
	}
}
