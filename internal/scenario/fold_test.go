package scenario

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// fold is a small fold of the log contract: enough to know which entries are
// anomalies, whether references are to existing objects, and whether amounts add up.
type fold struct {
	t         testing.TB
	check     *checker
	ids       map[string]bool
	parties   map[string]bool
	invoices  map[string]*foldInvoice
	entries   map[string]*foldWork
	charges   map[string]*foldWork
	payments  map[string]bool
	credits   map[string]bool
	packs     map[string]*foldPack // by client and package
	general   map[string]int64
	types     map[string]int
	anomalies int64
}

type foldInvoice struct {
	note     bool
	gross    int64
	applied  int64
	received int64
	paid     bool
	docs     map[string]string // number → status
	work     []*foldWork       // time entries and charges that ever named it
}

type foldWork struct {
	invoice  string
	status   string
	bill     int64
	pay      int64
	quarters int64
}

type foldPack struct {
	left, hours int64
	expired     bool
}

func newFold(t testing.TB) *fold {
	return &fold{
		t: t, check: newChecker(), ids: map[string]bool{}, parties: map[string]bool{}, invoices: map[string]*foldInvoice{},
		entries: map[string]*foldWork{}, charges: map[string]*foldWork{}, payments: map[string]bool{}, credits: map[string]bool{},
		packs: map[string]*foldPack{}, general: map[string]int64{}, types: map[string]int{},
	}
}

// fields are the decoded data of an entry.
type fields map[string]any

func (f fields) text(name string) string { s, _ := f[name].(string); return s }

func (f fields) cents(name string) int64 {
	n, _ := strconv.ParseInt(strings.Replace(f.text(name), ".", "", 1), 10, 64)
	return n
}

// hundredths reads a number exactly.
func (f fields) hundredths(name string) int64 {
	n, ok := f[name].(json.Number)
	if !ok {
		return 0
	}
	r, _ := new(big.Rat).SetString(n.String())
	r.Mul(r, big.NewRat(100, 1))
	return r.Num().Int64() / r.Denom().Int64()
}

// line folds an entry, and fails the test where something about it is wrong.
func (f *fold) line(l Line) {
	f.t.Helper()
	if err := f.check.data(l.Type, l.Data); err != nil {
		f.t.Errorf("%s %s: %v", l.ID, l.Type, err)
		return
	}
	if !domain.IsID(l.ID) || f.ids[l.ID] {
		f.t.Errorf("id %q has the wrong form or is not new", l.ID)
	}
	f.ids[l.ID] = true
	f.types[l.Type]++
	d := fields{}
	dec := json.NewDecoder(strings.NewReader(string(l.Data)))
	dec.UseNumber()
	if err := dec.Decode(&d); err != nil {
		f.t.Errorf("%s: %v", l.ID, err)
		return
	}
	ok, err := f.apply(l.Type, d)
	if err == nil && ok {
		err = f.references(d)
	}
	if err != nil {
		f.t.Errorf("%s %s %s: %v", l.ID, l.Type, l.Data, err)
	}
	if !ok {
		f.anomalies++
	}
}

// references checks that an entry refers to parties and invoices that exist.
func (f *fold) references(d fields) error {
	for _, name := range []string{"client_id", "contractor_id"} {
		if id := d.text(name); id != "" && !f.parties[id] {
			return fmt.Errorf("%s is not recorded", name)
		}
	}
	if id := d.text("invoice_id"); id != "" && f.invoices[id] == nil {
		return fmt.Errorf("the invoice is not recorded")
	}
	if w := d.text("work_date"); w != "" {
		first, last, err := periodDays(d.text("period"))
		on, _ := time.Parse(time.DateOnly, w)
		if err != nil || on.Before(first) || on.After(last) {
			return fmt.Errorf("the work is outside its period")
		}
	}
	return nil
}

// apply returns false for an anomaly, and an error for what should never happen.
func (f *fold) apply(typ string, d fields) (ok bool, err error) {
	switch {
	case typ == "client.recorded":
		f.parties[d.text("client_id")] = true
	case typ == "contractor.recorded":
		f.parties[d.text("contractor_id")] = true
	case typ == "period.closed":
	case strings.HasPrefix(typ, "time_entry."), strings.HasPrefix(typ, "charge."):
		return f.work(typ, d)
	case strings.HasPrefix(typ, "credit."):
		return true, f.credit(typ, d)
	case typ == "payment.confirmed" || typ == "payout.paid":
		id := d.text("payment_id")
		if f.payments[id] {
			return false, nil
		}
		f.payments[id] = true
		if typ == "payment.confirmed" {
			f.invoices[d.text("invoice_id")].received += d.cents("amount")
		}
	default:
		return f.invoice(typ, d)
	}
	return true, nil
}

func (f *fold) work(typ string, d fields) (bool, error) {
	rows, id := f.entries, d.text("time_entry_id")
	if strings.HasPrefix(typ, "charge.") {
		rows, id = f.charges, d.text("charge_id")
	}
	row := rows[id]
	switch typ {
	case "time_entry.recorded":
		w := f.put(rows, id, foldWork{
			d.text("invoice_id"), "in_review", d.cents("bill_amount"), d.cents("pay_amount"), d.hundredths("hours") / 25,
		})
		if d["is_flat_fee"] == nil && w.bill*400 != d.hundredths("hours")*d.cents("bill_rate")*4 {
			return true, fmt.Errorf("bill_amount is not hours × bill_rate")
		}
		if w.pay*100 != d.hundredths("hours")*d.cents("pay_rate") || w.pay >= w.bill {
			return true, fmt.Errorf("pay_amount is not hours × pay_rate, or not below the bill")
		}
		return true, nil
	case "charge.created", "charge.recorded":
		if typ == "charge.created" && row != nil || typ == "charge.recorded" && row == nil {
			return true, fmt.Errorf("created twice, or recorded before it was created")
		}
		w := f.put(rows, id, foldWork{d.text("invoice_id"), d.text("status"), d.cents("amount"), d.cents("pay_amount"), 0})
		if d["billed_to_client"] == false {
			w.bill = 0
		}
		return true, nil
	}
	if row == nil {
		return false, nil
	}
	switch typ {
	case "time_entry.approved":
		row.status = "approved"
		if inv := d.text("invoice_id"); inv != "" && inv != row.invoice {
			row.invoice = inv
			f.invoices[inv].work = append(f.invoices[inv].work, row)
		}
	case "time_entry.declined":
		row.status = "declined"
	default:
		row.status = "deleted"
		delete(rows, id)
	}
	return true, nil
}

// put writes a row, in place where there is one, and lists it at its invoice.
func (f *fold) put(rows map[string]*foldWork, id string, w foldWork) *foldWork {
	row := rows[id]
	if row == nil {
		row = &foldWork{}
		rows[id] = row
	}
	if inv := f.invoices[w.invoice]; inv != nil && row.invoice != w.invoice {
		inv.work = append(inv.work, row)
	}
	*row = w
	return row
}

func (f *fold) invoice(typ string, d fields) (bool, error) {
	id, number := d.text("invoice_id"), d.text("invoice_number")
	inv := f.invoices[id]
	switch {
	case typ == "credit_note.issued":
		if inv != nil || f.invoices[d.text("source_invoice_id")] == nil {
			return true, fmt.Errorf("a repeat, or without a source")
		}
		f.invoices[id] = &foldInvoice{note: true, gross: d.cents("amount")}
		return true, nil
	case typ == "invoice.recorded":
		if inv == nil {
			inv = &foldInvoice{docs: map[string]string{}}
			f.invoices[id] = inv
		}
		inv.gross = d.cents("gross_amount")
		if inv.note {
			return true, fmt.Errorf("a record of a credit note")
		}
		return true, f.adds(id, inv, d)
	case inv == nil:
		return false, nil
	}
	switch _, there := inv.docs[number]; {
	case typ == "invoice.issued":
		if there {
			return true, fmt.Errorf("a document issued twice")
		}
		inv.docs[number] = "issued"
		return true, nil
	case typ == "invoice.reversed" || typ == "payout.sent_to_payroll":
		return true, nil
	case number != "" && !there:
		return true, fmt.Errorf("an unknown document")
	}
	switch typ {
	case "invoice.voided":
		inv.docs[number] = "voided"
	case "invoice.paid":
		inv.paid = true
	}
	return true, nil
}

// adds checks that an invoice that is ready to send adds up to what is billed on it,
// and that its margin is what the agency keeps.
func (f *fold) adds(id string, inv *foldInvoice, d fields) error {
	gross, payout := inv.gross, d.cents("payout_amount")
	if d["margin_amount"] != nil {
		margin := d.cents("margin_amount")
		if margin != gross-payout {
			return fmt.Errorf("margin_amount is not gross − payout")
		}
		if d["margin_percent"] != nil {
			if off := d.hundredths("margin_percent")*gross - margin*10_000; off*2 > gross || off*2 < -gross {
				return fmt.Errorf("margin_percent is not margin / gross")
			}
		}
	}
	if d.text("client_billing_status") != "ready_to_send" || d.text("type") == "package" {
		return nil
	}
	var bill, pay, quarters int64
	for _, w := range inv.work {
		if w.invoice == id && w.status == "approved" {
			bill, pay, quarters = bill+w.bill, pay+w.pay, quarters+w.quarters
		}
	}
	if bill != gross || pay != payout || quarters*25 != d.hundredths("billable_hours") {
		return fmt.Errorf("adds up to %d, payout %d, %d quarters of an hour", bill, pay, quarters)
	}
	return nil
}

func (f *fold) credit(typ string, d fields) error {
	client, amount := d.text("client_id"), d.cents("amount")
	if f.credits[d.text("credit_id")] {
		return fmt.Errorf("a repeated credit_id")
	}
	f.credits[d.text("credit_id")] = true
	if typ == "credit.topped_up" {
		nested, _ := d["package"].(map[string]any)
		if nested == nil {
			f.general[client] += amount
			return nil
		}
		key := client + "/" + fields(nested).text("package_id")
		if f.packs[key] != nil {
			return fmt.Errorf("a package twice")
		}
		f.packs[key] = &foldPack{left: amount, hours: fields(nested).hundredths("hours")}
		return nil
	}
	pack := f.packs[client+"/"+d.text("package_id")]
	if pack == nil && d.text("package_id") != "" {
		return fmt.Errorf("an unknown package")
	}
	if typ == "credit.expired" {
		if pack.expired || pack.left == 0 {
			return fmt.Errorf("nothing left to expire")
		}
		*pack = foldPack{expired: true}
		return nil
	}
	sign := int64(1)
	if typ == "credit.taken_back" {
		sign = -1
	}
	inv := f.invoices[d.text("invoice_id")]
	if inv == nil {
		return fmt.Errorf("an unknown invoice")
	}
	inv.applied += sign * amount
	if pack == nil {
		f.general[client] -= sign * amount
		if f.general[client] < 0 {
			return fmt.Errorf("overdrawn")
		}
	} else {
		pack.left -= sign * amount
		pack.hours -= sign * d.hundredths("hours")
		if pack.left < 0 || pack.hours < 0 || pack.expired {
			return fmt.Errorf("overdrawn or expired")
		}
	}
	if amount == 0 || inv.applied < 0 || inv.applied > inv.gross {
		return fmt.Errorf("credit of %d on an invoice of %d", inv.applied, inv.gross)
	}
	return nil
}

// dated checks that work which a Living reports was done today, or some days ago: a
// correction, or work for a period that has just ended.
func (f *fold) dated(l Line, now time.Time) {
	f.t.Helper()
	var d struct {
		WorkDate string `json:"work_date"`
		Period   string `json:"period"`
	}
	if err := json.Unmarshal(l.Data, &d); err != nil {
		f.t.Error(err)
	}
	if l.Type != "time_entry.recorded" || d.WorkDate == now.Format(time.DateOnly) {
		return
	}
	on, err := time.Parse(time.DateOnly, d.WorkDate)
	if err != nil || on.After(now) || now.Sub(on) > 15*24*time.Hour {
		f.t.Errorf("at %s: work of %s in %s", now, d.WorkDate, d.Period)
	}
}

// paidInFull checks that what is marked as paid was paid.
func (f *fold) paidInFull() {
	f.t.Helper()
	for id, inv := range f.invoices {
		if inv.paid && inv.received+inv.applied != inv.gross {
			f.t.Errorf("%s: %d received and %d of credit for %d", id, inv.received, inv.applied, inv.gross)
		}
	}
}
