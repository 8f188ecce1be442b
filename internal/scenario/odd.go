package scenario

// oddPerMille is how many of 1000 entries have an odd one after them.
const oddPerMille = 4

// oddities remember what odd entries are made from. They hold copies: the data
// of a line belongs to whoever took it.
type oddities struct {
	payment []byte
	count   int64 // odd lines written
}

// keepPayment remembers the fields of a payment, without the closing brace.
func (o *oddities) keepPayment(fields []byte) {
	o.payment = append(append(o.payment[:0], fields...), '}')
}

// oddLine writes one of the lines that real producers send and a fold must
// survive: about objects or documents that do not exist, or a second time.
func (s *sim) oddLine() {
	s.odd.count++
	r := s.rng.IntN(4)
	if r == 0 && len(s.odd.payment) > 0 {
		s.write("payment.confirmed", s.odd.payment)
		return
	}
	o := s.obj.reset()
	c := s.cast.clients[0]
	switch r {
	case 1:
		o.text("invoice_id", s.id("in_x", &s.ids.odd))
		o.text("client_id", c.id)
		s.write("invoice.sent", o.finish())
	case 2:
		o.text("charge_id", s.id("ch_x", &s.ids.odd))
		o.text("client_id", c.id)
		s.write("charge.deleted", o.finish())
	default:
		o.text("time_entry_id", s.id("te_x", &s.ids.odd))
		s.write("time_entry.approved", o.finish())
	}
}
