package scenario

// invoice is an invoice as it stands: of the work of an engagement in a period, or
// of a credit package that a client buys.
type invoice struct {
	client     *client
	contractor *contractor // nil for a package
	period     period
	id, number string

	recorded      bool
	gross, payout int64 // cents
	quarters      int64 // of an hour
	external      bool  // billed outside of the product
	sold          *pack // the package that this is for

	document  string // the number of the document that counts; empty before it is issued
	onPayroll bool   // the payout was sent to payroll
}

// newInvoice prepares an invoice; it is not recorded yet.
func newInvoice(s *sim, cl *client, co *contractor, p period) *invoice {
	i := &invoice{client: cl, contractor: co, period: p}
	i.id = s.id("in_", &s.ids.invoice)
	i.number = "INV-" + i.id[len("in_"):]
	i.external = co != nil && cl.external && s.chance(150)
	return i
}

// knownID is the invoice's id, or "" before the log has it.
func (i *invoice) knownID() string {
	if i.recorded {
		return i.id
	}
	return ""
}

// writeReferences writes the references that end most entries about an invoice or
// its work.
func (i *invoice) writeReferences(o *object) {
	o.text("client_id", i.client.id)
	if i.contractor != nil {
		o.text("contractor_id", i.contractor.id)
	}
	o.text("period", i.period.key)
}

// record writes the invoice as it stands.
func (i *invoice) record(s *sim, draft bool, status string) {
	i.recorded = true
	o := s.obj.reset()
	o.text("invoice_id", i.id)
	o.text("number", i.number)
	if i.sold != nil {
		o.text("type", "package")
	}
	if draft {
		o.flag("draft", true)
	}
	o.text("client_id", i.client.id)
	if i.contractor != nil {
		o.text("contractor_id", i.contractor.id)
	}
	o.text("period", i.period.key)
	o.text("plan_name", i.client.plan)
	o.text("client_billing_status", status)
	o.money("gross_amount", i.gross)
	o.text("currency", i.client.currency)
	if i.external {
		o.flag("billed_externally", true)
	}
	if i.gross > 0 {
		o.money("delivered_value", i.gross)
		recognized := i.gross
		if i.sold != nil {
			recognized = 0 // until the hours are used
		}
		o.money("recognized_revenue", recognized)
	}
	if i.quarters > 0 {
		o.hours("billable_hours", i.quarters)
	}
	if i.contractor != nil {
		if status != "" {
			o.text("contractor_pay_status", "approved")
		}
		i.writeMargin(s)
	}
	s.emit("invoice.recorded")
}

// writeMargin writes the payout and what the agency keeps.
func (i *invoice) writeMargin(s *sim) {
	o := &s.obj
	o.money("payout_amount", i.payout)
	margin := i.gross - i.payout
	o.money("margin_amount", margin)
	if i.gross > 0 {
		o.hundredths("margin_percent", roundedShare(margin, i.gross))
		if s.chance(60) {
			o.text("margin_note", s.pick(marginNotes))
		}
	}
}

// roundedShare returns part/whole in hundredths of a percent, rounded half away from
// zero.
func roundedShare(part, whole int64) int64 {
	sign := int64(1)
	if part < 0 {
		sign, part = -1, -part
	}
	return sign * ((part*20_000 + whole) / (2 * whole))
}

// sendToPayroll sends the contractor's share to payroll, once, and plans the payout.
func (i *invoice) sendToPayroll(s *sim) {
	if i.onPayroll || i.payout == 0 {
		return
	}
	i.onPayroll = true
	o := s.obj.reset()
	o.text("invoice_id", i.id)
	if s.chance(150) {
		o.instant("sent_at", s.now-s.between(0, hour))
	}
	o.text("invoice_number", i.document)
	i.writeReferences(o)
	s.emit("payout.sent_to_payroll")
	s.afterInOffice(fullDay, 9*fullDay, func() { i.payOut(s) })
}

// payOut pays the contractor.
func (i *invoice) payOut(s *sim) {
	o := s.obj.reset()
	o.text("payment_id", s.id("po_", &s.ids.payment))
	o.text("invoice_id", i.id)
	o.text("invoice_number", i.document)
	o.text("client_id", i.client.id)
	o.text("contractor_id", i.contractor.id)
	o.money("amount", i.payout)
	o.text("currency", i.client.currency)
	if s.chance(500) {
		o.instant("confirmed_at", s.now-s.between(0, 6*hour))
	}
	o.text("source", s.pick(payoutSources))
	o.text("period", i.period.key)
	s.emit("payout.paid")
}
