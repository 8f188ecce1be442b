package scenario

// receivable is what a client owes for an invoice that is ready to send: its
// documents, the credit that goes to it, and its payments.
type receivable struct {
	*invoice
	supplement string    // the number of the supplemental document, if any
	extra      int64     // cents, what that is for; part of gross
	applied    *drawdown // the credit that pays for the invoice, if any
	paid       bool
}

// issue issues a document with this number.
func (r *receivable) issue(s *sim, number string) {
	r.document = number
	r.writeIssued(s, number, r.gross, false)
	s.afterInOffice(10*minute, 26*hour, func() { r.send(s) })
}

func (r *receivable) writeIssued(s *sim, number string, amount int64, supplemental bool) {
	o := s.obj.reset()
	o.text("invoice_id", r.id)
	o.text("invoice_number", number)
	o.money("amount", amount)
	if s.chance(150) {
		o.instant("issued_at", s.now-s.between(0, minute))
	}
	if supplemental {
		o.flag("is_supplemental", true)
	}
	r.writeReferences(o)
	s.emit("invoice.issued")
}

// send sends the document, and plans how the invoice goes on.
func (r *receivable) send(s *sim) {
	r.writeSent(s, r.document)
	first := r.document == r.number
	if first && r.contractor != nil {
		s.afterInOffice(2*fullDay, 8*fullDay, func() { r.sendToPayroll(s) })
	}
	switch n := s.rng.Uint32N(1000); {
	case !first || r.sold != nil || n >= 110:
		r.awaitPayment(s)
	case n < 45:
		s.afterInOffice(6*hour, 4*fullDay, func() { r.void(s) })
	case n < 90:
		s.afterInOffice(fullDay, 4*fullDay, func() { r.issueSupplement(s) })
	default:
		// Never paid; it stays sent.
	}
}

func (r *receivable) writeSent(s *sim, number string) {
	o := s.obj.reset()
	o.text("invoice_id", r.id)
	if number != "" && !s.chance(150) {
		o.text("invoice_number", number)
	}
	if s.chance(150) {
		o.instant("sent_at", s.now-s.between(0, 10*minute))
	}
	r.writeReferences(o)
	s.emit("invoice.sent")
}

// sendExternally sends an invoice that another program makes: it has no documents.
func (r *receivable) sendExternally(s *sim) {
	r.writeSent(s, "")
	s.afterInOffice(2*fullDay, 8*fullDay, func() { r.sendToPayroll(s) })
	r.awaitPayment(s)
}

// void voids the document and plans another one.
func (r *receivable) void(s *sim) {
	o := s.obj.reset()
	o.text("invoice_id", r.id)
	o.text("invoice_number", r.document)
	r.writeReferences(o)
	s.emit("invoice.voided")
	if s.chance(500) {
		s.after(second, minute, func() { r.takeBackCredit(s) })
	}
	s.afterInOffice(2*minute, 30*hour, func() { r.issue(s, r.number+"-R") })
}

// issueSupplement bills one more charge, in a document of its own.
func (r *receivable) issueSupplement(s *sim) {
	c := newCharge(s, r.invoice, min(s.today(), r.period.end))
	c.billed, c.payAmount = true, 0
	c.state, c.status = approved, "approved"
	c.record(s, "charge.created")
	r.extra = c.amount
	r.gross += c.amount
	r.supplement = r.number + "-S"
	s.after(second, minute, func() { r.record(s, false, "ready_to_send") })
	s.after(minute, 10*minute, func() {
		r.writeIssued(s, r.supplement, r.extra, true)
		s.afterInOffice(minute, 20*hour, func() {
			r.writeSent(s, r.supplement)
			r.awaitPayment(s)
		})
	})
}

// awaitPayment plans the client's payment.
func (r *receivable) awaitPayment(s *sim) {
	s.afterInOffice(3*fullDay, 34*fullDay, func() { r.pay(s) })
}

// pay confirms payments of what credit does not cover: one or two, and one more for
// a supplemental document. Then it plans that the invoice is marked as paid.
func (r *receivable) pay(s *sim) {
	r.paid = true
	due := r.gross - r.extra - r.credited()
	finish := func() {
		if r.supplement != "" {
			r.confirmPayment(s, r.supplement, r.extra)
		}
		s.after(minute, 40*minute, func() { r.markPaid(s) })
	}
	if due > 10_000 && s.chance(80) {
		part := due / 3
		r.confirmPayment(s, r.document, due-part)
		s.afterInOffice(2*fullDay, 9*fullDay, func() {
			r.confirmPayment(s, r.document, part)
			finish()
		})
		return
	}
	if due > 0 {
		r.confirmPayment(s, r.document, due)
	}
	finish()
}

// credited is how much credit pays for the invoice, in cents.
func (r *receivable) credited() int64 {
	if r.applied == nil {
		return 0
	}
	return r.applied.amount
}

func (r *receivable) confirmPayment(s *sim, number string, amount int64) {
	o := s.obj.reset()
	o.text("payment_id", s.id("pm_", &s.ids.payment))
	o.text("invoice_id", r.id)
	o.text("invoice_number", number)
	o.text("client_id", r.client.id)
	o.money("amount", amount)
	o.text("currency", r.client.currency)
	if s.chance(600) {
		o.instant("confirmed_at", s.now-s.between(0, 6*hour))
	}
	o.text("source", s.pick(paymentSources))
	if r.contractor != nil {
		o.text("contractor_id", r.contractor.id)
	}
	o.text("period", r.period.key)
	s.anomalies.keepPayment(o.b)
	s.emit("payment.confirmed")
}

// markPaid marks each document as paid, or all of them with one entry.
func (r *receivable) markPaid(s *sim) {
	switch {
	case r.document == "" || s.chance(250):
		r.writePaid(s, "")
	default:
		r.writePaid(s, r.document)
		if r.supplement != "" {
			s.after(second, minute, func() { r.writePaid(s, r.supplement) })
		}
	}
	switch {
	case r.sold != nil:
		s.after(minute, 10*minute, func() { r.client.topUpPackage(s, r.sold, r.invoice) })
	case s.chance(30):
		s.afterInOffice(3*fullDay, 20*fullDay, func() { r.reverse(s) })
	}
}

func (r *receivable) writePaid(s *sim, number string) {
	o := s.obj.reset()
	o.text("invoice_id", r.id)
	o.text("invoice_number", number)
	if s.chance(200) {
		o.instant("paid_at", s.now-s.between(minute, 20*hour))
	}
	r.writeReferences(o)
	s.emit("invoice.paid")
}

// reverse reverses a paid invoice, and plans a credit note for all or half of it.
func (r *receivable) reverse(s *sim) {
	o := s.obj.reset()
	o.text("invoice_id", r.id)
	o.text("invoice_number", r.document)
	r.writeReferences(o)
	s.emit("invoice.reversed")
	amount := r.gross
	if s.chance(400) {
		amount = (amount + 1) / 2
	}
	s.after(second, 5*minute, func() { r.issueCreditNote(s, amount) })
}

// issueCreditNote issues a credit note; some clients get the amount as credit.
func (r *receivable) issueCreditNote(s *sim, amount int64) {
	id := s.id("cn_", &s.ids.note)
	number := "CN-" + id[len("cn_"):]
	o := s.obj.reset()
	o.text("invoice_id", id)
	o.text("invoice_number", number)
	o.text("client_id", r.client.id)
	if r.contractor != nil {
		o.text("contractor_id", r.contractor.id)
	}
	o.text("period", r.period.key)
	o.money("amount", amount)
	o.text("currency", r.client.currency)
	o.text("kind", "post_payment")
	o.text("source_invoice_id", r.id)
	s.emit("credit_note.issued")
	if s.chance(500) {
		s.after(minute, fullDay, func() { r.client.topUpGeneral(s, amount, "credit_note", id, number) })
	}
}
