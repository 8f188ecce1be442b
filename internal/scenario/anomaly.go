package scenario

// anomaliesPerMille is how many of 1000 lines have an anomalous one after them.
const anomaliesPerMille = 4

// anomalies are entries that cannot have their effect, as real producers send
// them.
type anomalies struct {
	payment []byte // the data of the last payment; a copy, because lines belong to the caller
	written int64
}

// keepPayment remembers the fields of a payment, which lack the closing brace.
func (a *anomalies) keepPayment(fields []byte) {
	a.payment = append(append(a.payment[:0], fields...), '}')
}

// writeAnomaly writes a line about an object or document that does not exist, or
// one that repeats a payment.
func (s *sim) writeAnomaly() {
	s.anomalies.written++
	r := s.rng.IntN(4)
	if r == 0 && len(s.anomalies.payment) > 0 {
		s.write("payment.confirmed", s.anomalies.payment)
		return
	}
	o := s.obj.reset()
	c := s.agency.clients[0]
	switch r {
	case 1:
		o.text("invoice_id", s.id("in_x", &s.ids.anomaly))
		o.text("client_id", c.id)
		s.write("invoice.sent", o.finish())
	case 2:
		o.text("charge_id", s.id("ch_x", &s.ids.anomaly))
		o.text("client_id", c.id)
		s.write("charge.deleted", o.finish())
	default:
		o.text("time_entry_id", s.id("te_x", &s.ids.anomaly))
		s.write("time_entry.approved", o.finish())
	}
}
