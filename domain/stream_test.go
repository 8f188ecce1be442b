package domain_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Random streams draw every id from a small pool, so that nearly every stream has
// repeats, renames, voids, documents issued again, overdrawn credit, and references
// to nothing or to the wrong kind. Entries are drawn independently of each other,
// so rapid can drop any of them when it looks for a minimal stream.

// raw is an entry without a publish time.
type raw struct {
	typ  string
	data doc
	gap  time.Duration // since the entry before
}

// pick generates one of a few values; nil stands for an absent field.
func pick(values ...any) *rapid.Generator[any] { return rapid.SampledFrom(values) }

func ids(prefix string, n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = prefix + strconv.Itoa(i+1)
	}
	return list
}

// maybe leaves a field out about every other time.
func maybe(values ...any) *rapid.Generator[any] {
	for range values {
		values = append(values, nil)
	}
	return pick(values...)
}

type fields = map[string]*rapid.Generator[any]

func num(text string) json.Number { return json.Number(text) }

// streamTypes has generators for the fields of each type.
var streamTypes = func() map[string]fields {
	var (
		client, contractor = pick(ids("c", 3)...), pick(ids("k", 2)...)
		invoice, number    = pick(ids("i", 4)...), pick(ids("n", 3)...)
		credit, pkg        = pick(ids("r", 9)...), pick(ids("g", 3)...)
		entry, charge      = pick(ids("t", 4)...), pick(ids("h", 4)...)
		payment            = pick(ids("p", 5)...)
		period             = pick("2026-10", "2026-W42", "2026-BW21", "2026-BW27", "2024-02", "2020-W53")
		name               = pick("Ada", "Bob", "李 小龙", "\"q\"\\ <&>\n\t\u2028😀")
		amounts            = []any{"0.00", "1.00", "2.50", "10.00", "007.00", "999999999999.99"}
		amount, perhaps    = pick(amounts...), maybe(amounts...)
		hours              = []any{num("0"), num("1"), num("2.50"), num("1e1"), num("25e-2"), num("0.0001"), num("999999999999.9999")}
		currency           = pick("EUR", "USD")
		text               = maybe("x", "a longer text")
		flag               = maybe(true, false)
		date               = pick("2026-10-01", "2024-02-29")
		moment             = maybe("2026-10-02T09:15:00Z", "2026-10-02T11:15:00.1209999+02:00", "2025-12-31T23:59:59.9996-05:30")
	)
	address := rapid.Custom(func(t *rapid.T) any {
		return optional(t, fields{"line_1": text, "line_2": text, "city": text, "state": text, "zip": text, "country": text})
	})
	contacts := rapid.Custom(func(t *rapid.T) any {
		list := []any{}
		for range rapid.IntRange(0, 2).Draw(t, "contacts") {
			list = append(list, optional(t, fields{
				"first_name": text, "last_name": text, "title": text, "email": text, "phone": text,
				"is_primary": flag, "receives_invoices": flag,
			}))
		}
		return list
	})
	grant := rapid.Custom(func(t *rapid.T) any {
		return optional(t, fields{"package_id": pkg, "service": pick("Therapy"), "hours": maybe(hours...), "expires_at": maybe("2027-01-31")})
	})
	or := func(g *rapid.Generator[any]) *rapid.Generator[any] { return rapid.OneOf(g, g, pick(nil)) }
	moved := fields{
		"credit_id": credit, "client_id": client, "invoice_id": invoice, "amount": amount, "date": maybe("2026-01-31"),
		"note": text, "package_id": or(pkg), "hours": maybe(hours...),
	}
	ofCharge := fields{
		"charge_id": charge, "invoice_id": or(invoice), "client_id": client, "contractor_id": or(contractor), "date": date,
		"category": pick("travel"), "description": text, "kind": pick("service_fee"), "billed_to_client": flag,
		"amount": amount, "currency": currency, "status": maybe("in_review", "approved", "declined", "sent", "paid"),
		"period": period, "pay_rate": perhaps, "pay_amount": perhaps,
	}
	return map[string]fields{
		"client.recorded": {
			"client_id": client, "name": name, "status": text, "billing_status": text, "plan_name": text,
			"billing_address": or(address), "contacts": or(contacts),
			"contract_start_date": maybe("2024-01-01"), "contract_end_date": maybe("2024-12-31"),
		},
		"contractor.recorded":  {"contractor_id": contractor, "name": name, "email": text, "status": text, "title": text},
		"client.forgotten":     {"client_id": client, "reason": text},
		"contractor.forgotten": {"contractor_id": contractor, "reason": text},
		"invoice.recorded": {
			"invoice_id": invoice, "number": pick("X-1", "X-2"), "type": maybe("invoice", "package"), "draft": flag,
			"client_id": client, "contractor_id": or(contractor), "period": period, "plan_name": text,
			"client_billing_status": maybe("not_ready", "ready_to_send"), "gross_amount": amount, "currency": currency,
			"billed_externally": flag, "delivered_value": perhaps, "recognized_revenue": perhaps,
			"billable_hours": maybe(hours...), "contractor_pay_status": maybe("to_review", "held", "paid", "sent_to_payroll"),
			"payout_amount": perhaps, "margin_amount": maybe("-3.50", "1.00", "-0.00"),
			"margin_percent": maybe(num("-12.5"), num("1E+2"), num("-0.0"), num("33.3333")), "margin_note": text,
		},
		"invoice.issued":         {"invoice_id": invoice, "invoice_number": number, "amount": amount, "issued_at": moment, "is_supplemental": flag},
		"invoice.sent":           {"invoice_id": invoice, "invoice_number": or(number), "sent_at": moment},
		"invoice.paid":           {"invoice_id": invoice, "invoice_number": or(number), "paid_at": moment},
		"invoice.voided":         {"invoice_id": invoice, "invoice_number": number},
		"invoice.reversed":       {"invoice_id": invoice},
		"payout.sent_to_payroll": {"invoice_id": invoice, "sent_at": moment},
		"period.closed":          {"period": period, "client_id": or(client)},
		"credit_note.issued": {
			"invoice_id": invoice, "invoice_number": number, "client_id": client, "contractor_id": or(contractor),
			"period": period, "amount": amount, "currency": currency, "kind": pick("post_payment"), "source_invoice_id": invoice,
		},
		"payment.confirmed": {
			"payment_id": payment, "invoice_id": or(invoice), "invoice_number": or(number), "client_id": client,
			"amount": amount, "currency": currency, "confirmed_at": moment, "source": pick("bank"),
		},
		"payout.paid": {
			"payment_id": payment, "invoice_id": or(invoice), "invoice_number": or(number), "client_id": or(client),
			"contractor_id": contractor, "amount": amount, "currency": currency, "confirmed_at": moment, "source": pick("payroll"),
		},
		"time_entry.recorded": {
			"time_entry_id": entry, "work_date": date, "client_id": client, "contractor_id": contractor, "service": pick("Care"),
			"description": text, "hours": pick(hours...), "session_count": maybe(num("0"), num("3"), num("1e2")), "is_flat_fee": flag,
			"invoice_id": or(invoice), "period": period, "currency": currency, "bill_rate": perhaps, "bill_amount": perhaps,
			"pay_rate": perhaps, "pay_amount": perhaps, "pay_status": maybe("to_review", "paid"),
		},
		"time_entry.approved": {"time_entry_id": entry, "invoice_id": or(invoice)},
		"time_entry.declined": {"time_entry_id": entry, "decline_outcome": text},
		"time_entry.deleted":  {"time_entry_id": entry},
		"charge.created":      ofCharge,
		"charge.recorded":     ofCharge,
		"charge.deleted":      {"charge_id": charge, "billed_to_client": flag},
		"credit.topped_up": {
			"credit_id": credit, "client_id": client, "amount": amount, "currency": currency, "date": maybe("2026-01-31"),
			"kind": maybe("gift"), "note": text, "package": or(grant),
		},
		"credit.applied":    moved,
		"credit.taken_back": moved,
		"credit.expired":    {"credit_id": credit, "client_id": client, "package_id": pkg, "date": maybe("2026-01-31"), "note": text},
		"test.ping":         {"webhook_id": pick("wh")},
	}
}()

// references are the ids that any type accepts, as a producer may add them.
var references = fields{
	"invoice_id": pick(ids("i", 4)...), "invoice_number": pick(ids("n", 3)...), "client_id": pick(ids("c", 3)...),
	"contractor_id": pick(ids("k", 2)...), "period": pick("2026-10", "2020-W53"),
}

// optional draws an object of those fields that are not absent.
func optional(t *rapid.T, of fields) doc {
	d := doc{}
	for _, name := range sortedKeys(of) {
		if v := of[name].Draw(t, name); v != nil {
			d[name] = v
		}
	}
	return d
}

// entries generates raw entries. Types that make objects are drawn more often than
// others.
func entries() *rapid.Generator[raw] {
	var names []string
	for _, t := range domain.Types() {
		names = append(names, t.Name)
		switch t.Name {
		case "invoice.recorded", "invoice.issued", "time_entry.recorded", "credit.topped_up":
			names = append(names, t.Name, t.Name)
		case "time_entry.approved", "charge.recorded", "credit.applied":
			names = append(names, t.Name)
		}
	}
	return rapid.Custom(func(t *rapid.T) raw {
		typ := rapid.SampledFrom(names).Draw(t, "type")
		d := optional(t, streamTypes[typ])
		// A reference that the type lists stays as drawn: its absence may matter.
		if rapid.IntRange(0, 3).Draw(t, "reference") == 0 {
			name := rapid.SampledFrom(sortedKeys(references)).Draw(t, "referenced")
			if _, listed := streamTypes[typ][name]; !listed {
				d[name] = references[name].Draw(t, name)
			}
		}
		gap := rapid.SampledFrom([]time.Duration{time.Millisecond, 0, time.Second, 36 * time.Hour}).Draw(t, "gap")
		return raw{typ, d, gap}
	})
}

// drawStream draws a stream as the lines to append. rapid draws short slices unless
// their minimum length is large, so the minimum is drawn first, and shrinks first.
func drawStream(t *rapid.T) []string {
	least := rapid.SampledFrom([]int{1, 8, 24, 70}).Draw(t, "least")
	at := time.Date(2026, 10, 1, 22, 0, 0, 0, time.UTC)
	var lines []string
	for i, r := range rapid.SliceOfN(entries(), least, 2*least+20).Draw(t, "stream") {
		at = at.Add(r.gap)
		line, err := json.Marshal(doc{
			"workspace_id": "w", "id": fmt.Sprintf("e%d", i+1), "type": r.typ,
			"created_at": at.Format(time.RFC3339Nano), "data": r.data,
		})
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	return lines
}

// entriesOf decodes lines into the entries that the log would hold.
func entriesOf(t failer, lines []string) []domain.Entry {
	var sealed []domain.Entry
	chain := domain.Genesis("w")
	for i, line := range lines {
		d, err := domain.DecodeDraft([]byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		e := d.EntryAt(int64(i+1), chain)
		chain = e.Chain
		sealed = append(sealed, e)
	}
	return sealed
}

// failer is what rapid.T and testing.T share.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// TestStreamTypesAreTheCatalogue: the generator draws every type, and every field
// that the catalogue lists.
func TestStreamTypesAreTheCatalogue(t *testing.T) {
	t.Parallel()
	for _, typ := range domain.Types() {
		for i := range typ.Fields {
			name := typ.Fields[i].Name
			_, drawn := streamTypes[typ.Name][name]
			_, reference := references[name]
			if !drawn && !reference {
				t.Errorf("%s: %s is never drawn", typ.Name, name)
			}
		}
	}
	if len(streamTypes) != len(domain.Types()) {
		t.Errorf("%d types are drawn, the catalogue has %d", len(streamTypes), len(domain.Types()))
	}
}
