package domain_test

import "slices"

// net computes an invoice's net_due; that of a credit note stays 0.00.
func (o *oracle) net(inv *oracleRow) {
	if inv.doc["type"] == "credit_note" {
		return
	}
	rest, _ := floor(sub(rat(inv.doc["gross_amount"]), rat(inv.doc["credit_applied"])))
	inv.doc["net_due"] = amount(rest)
}

func (o *oracle) isClosed(period, client any) bool {
	return o.closed[[2]string{period.(string), ""}] || o.closed[[2]string{period.(string), client.(string)}]
}

func (o *oracle) invoiceRecorded(d doc) {
	id := d["invoice_id"].(string)
	inv := o.rows["invoices"][id]
	if inv != nil && inv.doc["type"] == "credit_note" {
		o.refuse("wrong_kind")
		return
	}
	if inv != nil && inv.doc["currency"] != d["currency"] && inv.doc["credit_applied"] != "0.00" {
		o.refuse("wrong_currency")
		return
	}
	draft := d["draft"] == true
	if inv == nil {
		inv = o.put("invoices", id)
		inv.shown = false
		for field, v := range (doc{
			"credit_applied": "0.00", "issued_invoices": []any{}, "reversed": false, "sent_at": nil, "paid_at": nil,
			"payout_sent_to_payroll_at": nil, "credit_note": nil,
		}) {
			inv.doc[field] = v
		}
	}
	if !draft {
		inv.shown = true
	}
	o.parties(inv.doc, d)
	setPeriod(inv.doc, d["period"].(string))
	inv.doc["number"], inv.doc["type"], inv.doc["plan_name"] = d["number"], orElse(d["type"], "invoice"), d["plan_name"]
	for _, f := range []string{"gross_amount", "delivered_value", "recognized_revenue", "payout_amount", "margin_amount"} {
		inv.doc[f] = money(d[f])
	}
	inv.doc["billable_hours"], inv.doc["margin_percent"] = shortest(d["billable_hours"]), shortest(d["margin_percent"])
	inv.doc["currency"], inv.doc["margin_note"] = d["currency"], d["margin_note"]
	inv.doc["billed_externally"] = orElse(d["billed_externally"], false)
	if s := inv.doc["client_billing_status"]; s != "sent" && s != "paid" {
		inv.doc["client_billing_status"] = orElse(d["client_billing_status"], "not_ready")
	}
	if s := inv.doc["contractor_pay_status"]; s != "sent_to_payroll" && s != "paid" {
		inv.doc["contractor_pay_status"] = orElse(d["contractor_pay_status"], "to_review")
	}
	inv.doc["period_closed"] = o.isClosed(d["period"], d["client_id"])
	o.net(inv)
	o.changed(inv)
}

func (o *oracle) creditNoteIssued(d doc) {
	id := d["invoice_id"].(string)
	if o.rows["invoices"][id] != nil {
		o.refuse("repeat")
		return
	}
	inv := o.put("invoices", id)
	o.parties(inv.doc, d)
	setPeriod(inv.doc, d["period"].(string))
	for field, v := range (doc{
		"number": d["invoice_number"], "type": "credit_note", "reversed": false, "plan_name": nil,
		"client_billing_status": "sent", "gross_amount": money(d["amount"]), "credit_applied": "0.00", "net_due": "0.00",
		"currency": d["currency"], "billed_externally": false, "delivered_value": nil, "recognized_revenue": nil,
		"billable_hours": nil, "sent_at": o.at, "paid_at": nil, "issued_invoices": []any{},
		"credit_note":           doc{"kind": d["kind"], "amount": money(d["amount"]), "source_invoice_id": d["source_invoice_id"]},
		"contractor_pay_status": nil, "payout_amount": nil, "payout_sent_to_payroll_at": nil,
		"margin_amount": nil, "margin_percent": nil, "margin_note": nil,
		"period_closed": o.isClosed(d["period"], d["client_id"]),
	}) {
		inv.doc[field] = v
	}
	o.changed(inv)
}

// documents are the issued documents of an invoice with that number.
func documents(inv *oracleRow, number any) (named []doc) {
	for _, x := range inv.doc["issued_invoices"].([]any) {
		if x := x.(doc); number == nil || x["number"] == number {
			named = append(named, x)
		}
	}
	return named
}

// lines changes those time entries and charges of an invoice that match.
func (o *oracle) lines(invoiceID any, match func(doc) bool, change func(doc)) {
	for _, list := range []string{"time_entries", "charges"} {
		for _, r := range o.rows[list] {
			if r.doc["invoice_id"] == invoiceID && match(r.doc) {
				change(r.doc)
				o.changed(r)
			}
		}
	}
}

func statusIn(list ...any) func(doc) bool {
	return func(d doc) bool { return slices.Contains(list, d["status"]) }
}

func setStatus(status string) func(doc) { return func(d doc) { d["status"] = status } }

func (o *oracle) invoiceIssued(d doc) {
	inv := o.known("invoices", d["invoice_id"])
	if inv == nil {
		return
	}
	for _, x := range documents(inv, d["invoice_number"]) {
		if x["status"] != "voided" {
			o.refuse("repeat")
			return
		}
	}
	inv.doc["issued_invoices"] = append(inv.doc["issued_invoices"].([]any), doc{
		"number": d["invoice_number"], "amount": money(d["amount"]), "status": "issued",
		"issued_at": instantOr(d["issued_at"], o.at), "sent_at": nil, "paid_at": nil,
		"is_supplemental": orElse(d["is_supplemental"], false),
	})
	inv.shown = true
	o.changed(inv)
	o.lines(d["invoice_id"],
		func(line doc) bool { return line["issued_invoice_number"] == nil },
		func(line doc) { line["issued_invoice_number"] = d["invoice_number"] })
}

// aboutDocument returns the invoice that an entry is about; nil, and an anomaly,
// where it is unknown or lacks the document that the entry names.
func (o *oracle) aboutDocument(d doc) *oracleRow {
	inv := o.known("invoices", d["invoice_id"])
	if inv != nil && d["invoice_number"] != nil && len(documents(inv, d["invoice_number"])) == 0 {
		o.refuse("unknown_document")
		return nil
	}
	return inv
}

func (o *oracle) invoiceSent(d doc) {
	inv := o.aboutDocument(d)
	if inv == nil {
		return
	}
	at := instantOr(d["sent_at"], o.at)
	for _, x := range documents(inv, d["invoice_number"]) {
		if x["status"] == "issued" || (d["invoice_number"] != nil && x["status"] == "sent") {
			x["status"], x["sent_at"] = "sent", at
		}
	}
	inv.doc["sent_at"] = at
	if inv.doc["client_billing_status"] != "paid" {
		inv.doc["client_billing_status"] = "sent"
	}
	inv.shown = true
	o.changed(inv)
	o.lines(d["invoice_id"], statusIn("approved"), setStatus("sent"))
}

func (o *oracle) invoicePaid(d doc) {
	inv := o.aboutDocument(d)
	if inv == nil {
		return
	}
	at := instantOr(d["paid_at"], o.at)
	for _, x := range documents(inv, d["invoice_number"]) {
		if x["status"] != "voided" {
			x["status"], x["paid_at"] = "paid", at
		}
	}
	inv.shown = true
	o.changed(inv)
	for _, x := range documents(inv, nil) {
		if x["status"] != "voided" && x["status"] != "paid" {
			return
		}
	}
	inv.doc["client_billing_status"], inv.doc["paid_at"] = "paid", at
	o.lines(d["invoice_id"], statusIn("approved", "sent"), setStatus("paid"))
}

func (o *oracle) invoiceVoided(d doc) {
	inv := o.aboutDocument(d)
	if inv == nil {
		return
	}
	for _, x := range documents(inv, d["invoice_number"]) {
		x["status"] = "voided"
	}
	inv.shown = true
	o.changed(inv)
	o.lines(d["invoice_id"],
		func(line doc) bool { return line["issued_invoice_number"] == d["invoice_number"] },
		func(line doc) { line["issued_invoice_number"] = nil })
	for _, x := range documents(inv, nil) {
		if x["status"] != "voided" {
			return
		}
	}
	inv.doc["client_billing_status"], inv.doc["sent_at"], inv.doc["paid_at"] = "ready_to_send", nil, nil
	o.lines(d["invoice_id"], statusIn("sent", "paid"), setStatus("approved"))
}

func (o *oracle) periodClosed(d doc) {
	client, _ := d["client_id"].(string)
	o.closed[[2]string{d["period"].(string), client}] = true
	for _, inv := range o.rows["invoices"] {
		if inv.doc["period"] == d["period"] && inv.doc["period_closed"] == false &&
			(client == "" || inv.doc["client"].(doc)["id"] == client) {
			inv.doc["period_closed"] = true
			o.changed(inv)
		}
	}
}
