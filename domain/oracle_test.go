package domain_test

// oracle is a second fold, written from the text of the log contract alone: slow
// and direct, on JSON values, with a method for each type of entry and no code of
// the package under test. Where the two differ, the contract decides.
type oracle struct {
	rows    map[string]map[string]*oracleRow // by list, then id
	credits map[string]*oracleCredit
	closed  map[[2]string]bool                  // period and client, "" for the workspace
	removed map[string]map[string]oracleRemoved // by list and who looks at it, then id

	anomalies []anomaly

	// The entry being folded.
	position int64
	eventID  string
	at       string
	refused  map[string]bool
}

// oracleRow is a row of a list with everything a key with all permissions sees.
type oracleRow struct {
	doc      doc
	position int64
	at       string
	shown    bool
}

func newOracle() *oracle {
	o := &oracle{rows: map[string]map[string]*oracleRow{}, credits: map[string]*oracleCredit{}, closed: map[[2]string]bool{}, removed: map[string]map[string]oracleRemoved{}}
	for _, list := range []string{"clients", "contractors", "invoices", "charges", "time_entries", "payments"} {
		o.rows[list] = map[string]*oracleRow{}
	}
	return o
}

// apply folds one entry, given as the line that was appended.
func (o *oracle) apply(line string) {
	e := parseDoc(line)
	o.position++
	o.eventID, o.at = e["id"].(string), instant(e["created_at"])
	o.refused = map[string]bool{}
	defer o.noteRemoved(o.seen())
	d := e["data"].(doc)
	switch e["type"] {
	case "client.recorded":
		o.party("clients", "client", d)
	case "contractor.recorded":
		o.party("contractors", "contractor", d)
	case "client.forgotten":
		o.forgotten("clients", "client", d["client_id"])
	case "contractor.forgotten":
		o.forgotten("contractors", "contractor", d["contractor_id"])
	case "invoice.recorded":
		o.invoiceRecorded(d)
	case "invoice.issued":
		o.invoiceIssued(d)
	case "invoice.sent":
		o.invoiceSent(d)
	case "invoice.paid":
		o.invoicePaid(d)
	case "invoice.voided":
		o.invoiceVoided(d)
	case "invoice.reversed":
		if inv := o.known("invoices", d["invoice_id"]); inv != nil {
			inv.doc["reversed"] = true
			inv.shown = true
			o.changed(inv)
		}
	case "credit_note.issued":
		o.creditNoteIssued(d)
	case "payout.sent_to_payroll":
		if inv := o.known("invoices", d["invoice_id"]); inv != nil {
			inv.doc["payout_sent_to_payroll_at"] = instantOr(d["sent_at"], o.at)
			if inv.doc["contractor_pay_status"] != "paid" {
				inv.doc["contractor_pay_status"] = "sent_to_payroll"
			}
			o.changed(inv)
		}
	case "period.closed":
		o.periodClosed(d)
	case "payment.confirmed":
		o.payment(d, "received_from_client")
	case "payout.paid":
		o.payoutPaid(d)
	case "time_entry.recorded":
		o.timeEntryRecorded(d)
	case "time_entry.approved":
		if te := o.known("time_entries", d["time_entry_id"]); te != nil {
			te.doc["status"], te.doc["decline_outcome"] = "approved", nil
			te.doc["invoice_id"] = orElse(d["invoice_id"], te.doc["invoice_id"])
			o.changed(te)
		}
	case "time_entry.declined":
		if te := o.known("time_entries", d["time_entry_id"]); te != nil {
			te.doc["status"], te.doc["decline_outcome"] = "declined", orElse(d["decline_outcome"], "needs_correction")
			o.changed(te)
		}
	case "time_entry.deleted":
		o.deleted("time_entries", d["time_entry_id"])
	case "charge.created":
		o.charge(d, true)
	case "charge.recorded":
		o.charge(d, false)
	case "charge.deleted":
		o.deleted("charges", d["charge_id"])
	case "credit.topped_up":
		o.creditToppedUp(d)
	case "credit.applied":
		o.creditMoved(d, "applied")
	case "credit.taken_back":
		o.creditMoved(d, "taken_back")
	case "credit.expired":
		o.creditExpired(d)
	case "test.ping":
	default:
		o.refuse("unreadable")
	}
}

// refuse notes an anomaly; an entry has at most one of each reason.
func (o *oracle) refuse(reason string) {
	if !o.refused[reason] {
		o.refused[reason] = true
		o.anomalies = append(o.anomalies, anomaly{o.position, o.eventID, reason})
	}
}

// known returns the row that an entry is about; nil, and an anomaly, where there
// is none.
func (o *oracle) known(list string, id any) *oracleRow {
	row := o.rows[list][id.(string)]
	if row == nil {
		o.refuse("unknown_object")
	}
	return row
}

// changed moves a row to the end of its list.
func (o *oracle) changed(r *oracleRow) {
	r.position, r.at = o.position, o.at
	if _, has := r.doc["updated_at"]; has {
		r.doc["updated_at"] = o.at
	}
}

// put returns a row; it makes it where there is none.
func (o *oracle) put(list, id string) *oracleRow {
	r := o.rows[list][id]
	if r == nil {
		r = &oracleRow{doc: doc{"id": id}, shown: true}
		if list != "payments" {
			r.doc["updated_at"] = o.at
		}
		if list == "time_entries" || list == "charges" {
			r.doc["issued_invoice_number"] = nil // stays when the row is recorded again
		}
		o.rows[list][id] = r
	}
	return r
}

func (o *oracle) deleted(list string, id any) {
	if o.known(list, id) != nil {
		delete(o.rows[list], id.(string))
	}
}

// party writes a client or a contractor, and its name in every row that shows it.
func (o *oracle) party(list, role string, d doc) {
	id := d[role+"_id"].(string)
	name := d["name"]
	before := o.name(list, id)
	r := o.put(list, id)
	r.doc["name"], r.doc["status"] = name, orElse(d["status"], "active")
	if role == "client" {
		r.doc["billing_status"], r.doc["plan_name"] = orElse(d["billing_status"], "active"), d["plan_name"]
		r.doc["contract_start_date"], r.doc["contract_end_date"] = d["contract_start_date"], d["contract_end_date"]
		r.doc["billing_address"] = nil
		if a, ok := d["billing_address"].(doc); ok {
			r.doc["billing_address"] = doc{
				"line_1": a["line_1"], "line_2": a["line_2"], "city": a["city"],
				"state": a["state"], "zip": a["zip"], "country": a["country"],
			}
		}
		contacts := []any{}
		if given, ok := d["contacts"].([]any); ok {
			for _, c := range given {
				c := c.(doc)
				contacts = append(contacts, doc{
					"first_name": c["first_name"], "last_name": c["last_name"], "title": c["title"],
					"email": c["email"], "phone": c["phone"],
					"is_primary": orElse(c["is_primary"], false), "receives_invoices": orElse(c["receives_invoices"], false),
				})
			}
		}
		r.doc["contacts"] = contacts
		if o.credits[id] == nil || name != before {
			o.credit(id).client = doc{"id": id, "name": name}
		}
	} else {
		r.doc["email"], r.doc["title"] = d["email"], d["title"]
	}
	o.changed(r)
	if name == before {
		return
	}
	for _, of := range []string{"invoices", "charges", "time_entries", "payments"} {
		for _, row := range o.rows[of] {
			if ref, ok := row.doc[role].(doc); ok && ref["id"] == id {
				row.doc[role] = doc{"id": id, "name": name}
				o.changed(row)
			}
		}
	}
}

// forgotten takes what is about a party out of every row.
func (o *oracle) forgotten(list, role string, id any) {
	if r := o.rows[list][id.(string)]; r != nil {
		r.doc["name"] = nil
		if role == "client" {
			r.doc["billing_address"], r.doc["contacts"] = nil, []any{}
		} else {
			r.doc["email"], r.doc["title"] = nil, nil
		}
		o.changed(r)
	}
	for _, of := range []string{"invoices", "charges", "time_entries", "payments"} {
		for _, row := range o.rows[of] {
			if ref, ok := row.doc[role].(doc); !ok || ref["id"] != id {
				continue
			}
			row.doc[role] = doc{"id": id, "name": nil}
			switch {
			case of == "invoices" && role == "client":
				row.doc["margin_note"] = nil
			case of == "time_entries", of == "charges" && role == "client":
				row.doc["description"] = nil
			}
			o.changed(row)
		}
	}
	if c := o.credits[id.(string)]; c != nil && role == "client" {
		o.credit(id.(string)).client = doc{"id": id, "name": nil}
		for _, h := range c.history {
			h["note"] = nil
		}
	}
}

// name is the name shown for a party: null until it is recorded.
func (o *oracle) name(list, id string) any {
	if r := o.rows[list][id]; r != nil {
		return r.doc["name"]
	}
	return nil
}

// ref returns a reference to a party as answers show it.
func (o *oracle) ref(list string, id any) any {
	if id == nil {
		return nil
	}
	return doc{"id": id, "name": o.name(list, id.(string))}
}

// parties writes both references of a row.
func (o *oracle) parties(row, d doc) {
	row["client"], row["contractor"] = o.ref("clients", d["client_id"]), o.ref("contractors", d["contractor_id"])
}

func (o *oracle) payment(d doc, direction string) bool {
	id := d["payment_id"].(string)
	if o.rows["payments"][id] != nil {
		o.refuse("repeat")
		return false
	}
	r := o.put("payments", id)
	o.parties(r.doc, d)
	if direction == "received_from_client" {
		r.doc["contractor"] = nil
	}
	r.doc["direction"], r.doc["invoice_id"], r.doc["invoice_number"] = direction, d["invoice_id"], d["invoice_number"]
	r.doc["amount"], r.doc["currency"], r.doc["source"] = money(d["amount"]), d["currency"], d["source"]
	r.doc["confirmed_at"] = instantOr(d["confirmed_at"], o.at)
	o.changed(r)
	return true
}

func (o *oracle) payoutPaid(d doc) {
	if !o.payment(d, "paid_to_contractor") || d["invoice_id"] == nil {
		return
	}
	inv := o.known("invoices", d["invoice_id"])
	if inv == nil {
		return
	}
	inv.doc["contractor_pay_status"] = "paid"
	o.changed(inv)
	for _, te := range o.rows["time_entries"] {
		contractor, _ := te.doc["contractor"].(doc)
		if te.doc["invoice_id"] == d["invoice_id"] && contractor["id"] == d["contractor_id"] {
			te.doc["pay_status"] = "paid"
			o.changed(te)
		}
	}
}

func (o *oracle) timeEntryRecorded(d doc) {
	r := o.put("time_entries", d["time_entry_id"].(string))
	o.parties(r.doc, d)
	setPeriod(r.doc, d["period"].(string))
	for _, f := range []string{"work_date", "service", "description", "invoice_id", "currency"} {
		r.doc[f] = d[f]
	}
	for _, f := range []string{"bill_rate", "bill_amount", "pay_rate", "pay_amount"} {
		r.doc[f] = money(d[f])
	}
	r.doc["session_count"] = shortest(d["session_count"])
	r.doc["hours"], r.doc["is_flat_fee"] = shortest(d["hours"]), orElse(d["is_flat_fee"], false)
	r.doc["pay_status"] = orElse(d["pay_status"], "to_review")
	r.doc["status"], r.doc["decline_outcome"] = "in_review", nil
	o.changed(r)
}

func (o *oracle) charge(d doc, onlyNew bool) {
	id := d["charge_id"].(string)
	if onlyNew && o.rows["charges"][id] != nil {
		o.refuse("repeat")
		return
	}
	r := o.put("charges", id)
	o.parties(r.doc, d)
	setPeriod(r.doc, d["period"].(string))
	for _, f := range []string{"invoice_id", "date", "category", "description", "kind", "currency"} {
		r.doc[f] = d[f]
	}
	for _, f := range []string{"amount", "pay_rate", "pay_amount"} {
		r.doc[f] = money(d[f])
	}
	r.doc["billed_to_client"], r.doc["status"] = orElse(d["billed_to_client"], true), orElse(d["status"], "in_review")
	o.changed(r)
}
