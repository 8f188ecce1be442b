package scenario

// issue gives the invoice a document of the number.
func (s *sim) issue(b *bill, number string) {
	b.document = number
	s.invoiceIssued(b, number, b.gross, false)
	s.afterInOffice(10*minute, 26*hour, func() { s.send(b) })
}

func (s *sim) invoiceIssued(b *bill, number string, amount int64, supplemental bool) {
	o := s.obj.reset()
	o.text("invoice_id", b.id)
	o.text("invoice_number", number)
	o.money("amount", amount)
	if s.chance(150) {
		o.instant("issued_at", s.now-s.between(0, minute))
	}
	if supplemental {
		o.flag("is_supplemental", true)
	}
	s.refs(b)
	s.emit("invoice.issued")
}

// send sends the document, and decides how the invoice goes on.
func (s *sim) send(b *bill) {
	s.invoiceSent(b, b.document)
	first := b.document == b.number
	if first && b.contractor != nil {
		s.afterInOffice(2*fullDay, 8*fullDay, func() { s.toPayroll(b) })
	}
	switch r := s.rng.Uint32N(1000); {
	case !first || b.sold != nil || r >= 110:
		s.awaitPayment(b)
	case r < 45:
		s.afterInOffice(6*hour, 4*fullDay, func() { s.void(b) })
	case r < 90:
		s.afterInOffice(fullDay, 4*fullDay, func() { s.issueSupplement(b) })
	default:
		// Never paid; it stays sent.
	}
}

func (s *sim) invoiceSent(b *bill, number string) {
	o := s.obj.reset()
	o.text("invoice_id", b.id)
	if number != "" && !s.chance(150) {
		o.text("invoice_number", number)
	}
	if s.chance(150) {
		o.instant("sent_at", s.now-s.between(0, 10*minute))
	}
	s.refs(b)
	s.emit("invoice.sent")
}

// sendExternally is for invoices that another program makes: no documents.
func (s *sim) sendExternally(b *bill) {
	s.invoiceSent(b, "")
	s.afterInOffice(2*fullDay, 8*fullDay, func() { s.toPayroll(b) })
	s.awaitPayment(b)
}

// void takes the document back and issues another one.
func (s *sim) void(b *bill) {
	o := s.obj.reset()
	o.text("invoice_id", b.id)
	o.text("invoice_number", b.document)
	s.refs(b)
	s.emit("invoice.voided")
	if s.chance(500) {
		s.after(second, minute, func() { s.takeBackCredit(b) })
	}
	s.afterInOffice(2*minute, 30*hour, func() { s.issue(b, b.number+"-R") })
}

// issueSupplement bills something more in a document of its own.
func (s *sim) issueSupplement(b *bill) {
	c := s.newCharge(b, min(s.today(), b.period.end))
	c.billed, c.payAmount = true, 0
	c.state, c.status = approved, "approved"
	s.recordCharge(c, "charge.created")
	b.extra = c.amount
	b.gross += c.amount
	b.supplement = b.number + "-S"
	s.after(second, minute, func() { s.recordBill(b, false, "ready_to_send") })
	s.after(minute, 10*minute, func() {
		s.invoiceIssued(b, b.supplement, b.extra, true)
		s.afterInOffice(minute, 20*hour, func() {
			s.invoiceSent(b, b.supplement)
			s.awaitPayment(b)
		})
	})
}

// awaitPayment plans the client's payment.
func (s *sim) awaitPayment(b *bill) {
	s.afterInOffice(3*fullDay, 34*fullDay, func() { s.pay(b) })
}

// pay confirms what is due beside the credit, in one payment or two, and one
// more for a supplemental document.
func (s *sim) pay(b *bill) {
	b.paid = true
	due := b.gross - b.extra - b.credited()
	settled := func() {
		if b.supplement != "" {
			s.paymentConfirmed(b, b.supplement, b.extra)
		}
		s.after(minute, 40*minute, func() { s.markPaid(b) })
	}
	if due > 10_000 && s.chance(80) {
		part := due / 3
		s.paymentConfirmed(b, b.document, due-part)
		s.afterInOffice(2*fullDay, 9*fullDay, func() {
			s.paymentConfirmed(b, b.document, part)
			settled()
		})
		return
	}
	if due > 0 {
		s.paymentConfirmed(b, b.document, due)
	}
	settled()
}

// markPaid marks each document, or all of them at once.
func (s *sim) markPaid(b *bill) {
	switch {
	case b.document == "" || s.chance(250):
		s.invoicePaid(b, "")
	default:
		s.invoicePaid(b, b.document)
		if b.supplement != "" {
			s.after(second, minute, func() { s.invoicePaid(b, b.supplement) })
		}
	}
	switch {
	case b.sold != nil:
		s.after(minute, 10*minute, func() { s.grant(b) })
	case s.chance(30):
		s.afterInOffice(3*fullDay, 20*fullDay, func() { s.reverse(b) })
	}
}

func (s *sim) invoicePaid(b *bill, number string) {
	o := s.obj.reset()
	o.text("invoice_id", b.id)
	o.text("invoice_number", number)
	if s.chance(200) {
		o.instant("paid_at", s.now-s.between(minute, 20*hour))
	}
	s.refs(b)
	s.emit("invoice.paid")
}

// reverse takes a paid invoice back: a credit note for it, and for some the
// amount as credit.
func (s *sim) reverse(b *bill) {
	o := s.obj.reset()
	o.text("invoice_id", b.id)
	o.text("invoice_number", b.document)
	s.refs(b)
	s.emit("invoice.reversed")
	amount := b.gross
	if s.chance(400) {
		amount = (amount + 1) / 2
	}
	s.after(second, 5*minute, func() { s.issueCreditNote(b, amount) })
}

func (s *sim) issueCreditNote(b *bill, amount int64) {
	id := s.id("cn_", &s.ids.note)
	number := "CN-" + id[len("cn_"):]
	o := s.obj.reset()
	o.text("invoice_id", id)
	o.text("invoice_number", number)
	o.text("client_id", b.client.id)
	if b.contractor != nil {
		o.text("contractor_id", b.contractor.id)
	}
	o.text("period", b.period.key)
	o.money("amount", amount)
	o.text("currency", b.client.currency)
	o.text("kind", "post_payment")
	o.text("source_invoice_id", b.id)
	s.emit("credit_note.issued")
	if s.chance(500) {
		s.after(minute, fullDay, func() { s.topUpGeneral(b.client, amount, "credit_note", id, number) })
	}
}

// closePeriod closes a period for the workspace, or for one client.
func (s *sim) closePeriod(p period, c *client) {
	o := s.obj.reset()
	o.text("period", p.key)
	if c != nil {
		o.text("client_id", c.id)
	}
	s.emit("period.closed")
}
