package scenario

// paymentConfirmed writes a payment of the client.
func (s *sim) paymentConfirmed(b *bill, number string, amount int64) {
	o := s.obj.reset()
	o.text("payment_id", s.id("pm_", &s.ids.payment))
	o.text("invoice_id", b.id)
	o.text("invoice_number", number)
	o.text("client_id", b.client.id)
	o.money("amount", amount)
	o.text("currency", b.client.currency)
	if s.chance(600) {
		o.instant("confirmed_at", s.now-s.between(0, 6*hour))
	}
	o.text("source", s.pick(paymentSources))
	if b.contractor != nil {
		o.text("contractor_id", b.contractor.id)
	}
	o.text("period", b.period.key)
	s.odd.keepPayment(s.obj.b)
	s.emit("payment.confirmed")
}

// toPayroll hands the contractor's share on, once.
func (s *sim) toPayroll(b *bill) {
	if b.payrollKnown || b.payout == 0 {
		return
	}
	b.payrollKnown = true
	o := s.obj.reset()
	o.text("invoice_id", b.id)
	if s.chance(150) {
		o.instant("sent_at", s.now-s.between(0, hour))
	}
	o.text("invoice_number", b.document)
	s.refs(b)
	s.emit("payout.sent_to_payroll")
	s.afterInOffice(fullDay, 9*fullDay, func() { s.payoutPaid(b) })
}

func (s *sim) payoutPaid(b *bill) {
	o := s.obj.reset()
	o.text("payment_id", s.id("po_", &s.ids.payment))
	o.text("invoice_id", b.id)
	o.text("invoice_number", b.document)
	o.text("client_id", b.client.id)
	o.text("contractor_id", b.contractor.id)
	o.money("amount", b.payout)
	o.text("currency", b.client.currency)
	if s.chance(500) {
		o.instant("confirmed_at", s.now-s.between(0, 6*hour))
	}
	o.text("source", s.pick(payoutSources))
	o.text("period", b.period.key)
	s.emit("payout.paid")
}
