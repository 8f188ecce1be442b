package scenario

// bill is one invoice in the making: the work of an engagement in a period, or
// a credit package that a client buys.
type bill struct {
	client     *client
	contractor *contractor // nil for a package
	period     period
	id, number string

	// opened is set when the invoice is recorded. An early bill is opened
	// before its first work, so that all entries about the work can name it; a
	// late one when the period is over.
	opened, early bool
	// loose bills stay without an invoice: work that a Living reports and that
	// some later invoice would take.
	loose bool
	// settled bills take no more work.
	settled bool

	entries []*timeEntry
	charges []*charge

	gross, payout int64 // cents
	quarters      int64
	external      bool
	sold          *pack // the package that this is for

	document     string // the number of the document that counts
	supplement   string // that of the supplemental one, if any
	extra        int64  // cents, what the supplemental one is for
	applied      *draw  // credit that went to this invoice
	payrollKnown bool
	paid         bool
}

// knownID is the invoice's id once readers can know it.
func (b *bill) knownID() string {
	if b.opened {
		return b.id
	}
	return ""
}

// reviewed reports whether work is reviewed as it comes, not at the end.
func (b *bill) reviewed() bool { return b.early || b.loose }

// credited is how much credit pays for the invoice now.
func (b *bill) credited() int64 {
	if b.applied == nil {
		return 0
	}
	return b.applied.amount
}

// refs writes the references that end most entries about a bill or its work.
func (s *sim) refs(b *bill) {
	s.obj.text("client_id", b.client.id)
	if b.contractor != nil {
		s.obj.text("contractor_id", b.contractor.id)
	}
	s.obj.text("period", b.period.key)
}

// newBill prepares an invoice; it is not recorded yet.
func (s *sim) newBill(cl *client, co *contractor, p period) *bill {
	b := &bill{client: cl, contractor: co, period: p}
	b.id = s.id("in_", &s.ids.invoice)
	b.number = "INV-" + b.id[len("in_"):]
	b.external = co != nil && cl.external && s.chance(150)
	return b
}

// openBill prepares the bill of an engagement for a period, and records its
// invoice when it is an early one.
func (s *sim) openBill(e *engagement, p period) *bill {
	b := s.newBill(e.client, e.contractor, p)
	b.early = s.chance(650)
	if b.early {
		s.recordBill(b, s.chance(600), "")
	}
	return b
}

// billFor gives the bill that work of a day goes to. Its settling is planned as
// it is opened.
func (s *sim) billFor(e *engagement, on day) *bill {
	if e.bill != nil && on <= e.bill.period.end {
		return e.bill
	}
	b := s.openBill(e, e.client.rhythm.period(on))
	e.bill = b
	at := (b.period.end + 1).start() + s.between(opening, 2*fullDay)
	s.queue.push(s.office(at), func() { s.settle(b) })
	return b
}

// settle ends the work on a bill: the invoice is recorded if it is not yet,
// what is in review is approved, and the final record is planned.
func (s *sim) settle(b *bill) {
	b.settled = true
	if !s.total(b, inReview) {
		return
	}
	if !b.opened {
		s.recordBill(b, s.chance(500), "")
	}
	lag := int64(0)
	for _, t := range b.entries {
		if t.state == inReview {
			lag += s.between(200, 4*second)
			s.after(lag, lag, func() { s.approveEntry(t) })
		}
	}
	for _, c := range b.charges {
		if c.state == inReview {
			lag += s.between(2*second, 20*second)
			s.after(lag, lag, func() { s.approveCharge(c) })
		}
	}
	// Office hours move a step later, never earlier: the approvals come first.
	s.afterInOffice(lag+30*minute, lag+20*hour, func() { s.finalise(b) })
}

// total adds up what counts: approved work, and that in the state given too.
// It reports whether there is anything to bill or to pay.
func (s *sim) total(b *bill, also reviewState) bool {
	b.gross, b.payout, b.quarters = 0, 0, 0
	for _, t := range b.entries {
		if t.state == approved || t.state == also {
			b.gross += t.billAmount()
			b.payout += t.payAmount()
			b.quarters += t.quarters
		}
	}
	for _, c := range b.charges {
		if c.state == approved || c.state == also {
			b.payout += c.payAmount
			if c.billed {
				b.gross += c.amount
			}
		}
	}
	return b.gross > 0 || b.payout > 0
}

// finalise records the invoice ready to send and starts its life as documents.
func (s *sim) finalise(b *bill) {
	if !s.total(b, approved) {
		return
	}
	b.entries = nil // added up; a big agency would keep all its work in memory
	s.recordBill(b, false, "ready_to_send")
	switch {
	case b.gross == 0: // only work that the client does not pay for
		s.afterInOffice(fullDay, 4*fullDay, func() { s.toPayroll(b) })
	case b.external:
		s.afterInOffice(hour, fullDay, func() { s.sendExternally(b) })
	default:
		s.after(minute, 20*minute, func() { s.applyCredit(b) })
		s.afterInOffice(30*minute, 8*hour, func() { s.issue(b, b.number) })
	}
}

// recordBill writes the invoice as it stands.
func (s *sim) recordBill(b *bill, draft bool, status string) {
	b.opened = true
	o := s.obj.reset()
	o.text("invoice_id", b.id)
	o.text("number", b.number)
	if b.sold != nil {
		o.text("type", "package")
	}
	if draft {
		o.flag("draft", true)
	}
	o.text("client_id", b.client.id)
	if b.contractor != nil {
		o.text("contractor_id", b.contractor.id)
	}
	o.text("period", b.period.key)
	o.text("plan_name", b.client.plan)
	o.text("client_billing_status", status)
	o.money("gross_amount", b.gross)
	o.text("currency", b.client.currency)
	if b.external {
		o.flag("billed_externally", true)
	}
	if b.gross > 0 {
		o.money("delivered_value", b.gross)
		recognized := b.gross
		if b.sold != nil {
			recognized = 0 // until the hours are used
		}
		o.money("recognized_revenue", recognized)
	}
	if b.quarters > 0 {
		o.hours("billable_hours", b.quarters)
	}
	if b.contractor != nil {
		if status != "" {
			o.text("contractor_pay_status", "approved")
		}
		s.margin(b)
	}
	s.emit("invoice.recorded")
}

// margin writes what stays with the agency.
func (s *sim) margin(b *bill) {
	o := &s.obj
	o.money("payout_amount", b.payout)
	margin := b.gross - b.payout
	o.money("margin_amount", margin)
	if b.gross > 0 {
		o.hundredths("margin_percent", roundedShare(margin, b.gross))
		if s.chance(60) {
			o.text("margin_note", s.pick(marginNotes))
		}
	}
}

// roundedShare gives part/whole in hundredths of a percent, half away from zero.
func roundedShare(part, whole int64) int64 {
	sign := int64(1)
	if part < 0 {
		sign, part = -1, -part
	}
	return sign * ((part*20_000 + whole) / (2 * whole))
}
