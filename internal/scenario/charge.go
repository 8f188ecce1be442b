package scenario

// charge is a cost or a fee beside the hours.
type charge struct {
	id             string
	bill           *bill
	date           day
	category, kind string
	description    string
	billed         bool // to the client
	amount         int64
	payAmount      int64 // to the contractor; 0 for none
	status         string
	state          reviewState
}

// recordCharge writes the charge as it stands, as the type given: both types
// take the same fields.
func (s *sim) recordCharge(c *charge, typ string) {
	b := c.bill
	o := s.obj.reset()
	o.text("charge_id", c.id)
	o.text("invoice_id", b.knownID())
	o.text("client_id", b.client.id)
	if b.contractor != nil {
		o.text("contractor_id", b.contractor.id)
	}
	o.date("date", c.date)
	o.text("category", c.category)
	o.text("description", c.description)
	o.text("kind", c.kind)
	if !c.billed {
		o.flag("billed_to_client", false)
	}
	o.money("amount", c.amount)
	o.text("currency", b.client.currency)
	o.text("status", c.status)
	o.text("period", b.period.key)
	if c.payAmount > 0 {
		if c.kind == "service_fee" {
			o.money("pay_rate", c.payAmount)
		}
		o.money("pay_amount", c.payAmount)
	}
	s.emit(typ)
}

func (s *sim) newCharge(b *bill, on day) *charge {
	c := &charge{
		id:       s.id("ch_", &s.ids.charge),
		bill:     b,
		date:     on,
		category: s.pick(chargeCategories),
		kind:     s.pick(chargeKinds),
		billed:   !s.chance(180),
		amount:   s.between(500, 25_000),
	}
	if s.chance(400) {
		c.description = s.pick(descriptions)
	}
	if b.contractor != nil && (!c.billed || s.chance(250)) {
		c.payAmount = c.amount * 4 / 5
	}
	b.charges = append(b.charges, c)
	return c
}

// addCharge creates a charge for the bill and plans its review.
func (s *sim) addCharge(b *bill, on day) {
	c := s.newCharge(b, on)
	s.recordCharge(c, "charge.created")
	switch {
	case s.chance(80):
		s.after(hour, 2*fullDay, func() {
			if !b.settled && c.state == inReview {
				s.deleteCharge(c)
			}
		})
	case b.reviewed():
		s.afterInOffice(2*hour, 3*fullDay, func() { s.approveCharge(c) })
	}
}

// approveCharge writes the charge anew with its new status.
func (s *sim) approveCharge(c *charge) {
	if c.state != inReview {
		return
	}
	c.state, c.status = approved, "approved"
	s.recordCharge(c, "charge.recorded")
}

func (s *sim) deleteCharge(c *charge) {
	c.state = deleted
	o := s.obj.reset()
	o.text("charge_id", c.id)
	o.text("invoice_id", c.bill.knownID())
	s.refs(c.bill)
	s.emit("charge.deleted")
}
