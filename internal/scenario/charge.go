package scenario

// charge is a cost or a fee besides the hours.
type charge struct {
	id             string
	invoice        *invoice
	date           day
	category, kind string
	description    string
	billed         bool // to the client
	amount         int64
	payAmount      int64 // to the contractor; 0 for none
	status         string
	state          reviewState
}

// addCharge creates a charge of the bill and plans its review.
func (b *bill) addCharge(s *sim, on day) {
	c := newCharge(s, b.invoice, on)
	b.charges = append(b.charges, c)
	c.record(s, "charge.created")
	switch {
	case s.chance(80):
		s.after(hour, 2*fullDay, func() {
			if !b.closed && c.state == inReview {
				c.delete(s)
			}
		})
	case b.reviewed():
		s.afterInOffice(2*hour, 3*fullDay, func() { c.approve(s) })
	}
}

func newCharge(s *sim, i *invoice, on day) *charge {
	c := &charge{
		id:       s.id("ch_", &s.ids.charge),
		invoice:  i,
		date:     on,
		category: s.pick(chargeCategories),
		kind:     s.pick(chargeKinds),
		billed:   !s.chance(180),
		amount:   s.between(500, 25_000),
	}
	if s.chance(400) {
		c.description = s.pick(descriptions)
	}
	if i.contractor != nil && (!c.billed || s.chance(250)) {
		c.payAmount = c.amount * 4 / 5
	}
	return c
}

// record writes the charge as it stands. typ is charge.created or charge.recorded,
// which take the same fields.
func (c *charge) record(s *sim, typ string) {
	i := c.invoice
	o := s.obj.reset()
	o.text("charge_id", c.id)
	o.text("invoice_id", i.knownID())
	o.text("client_id", i.client.id)
	if i.contractor != nil {
		o.text("contractor_id", i.contractor.id)
	}
	o.date("date", c.date)
	o.text("category", c.category)
	o.text("description", c.description)
	o.text("kind", c.kind)
	if !c.billed {
		o.flag("billed_to_client", false)
	}
	o.money("amount", c.amount)
	o.text("currency", i.client.currency)
	o.text("status", c.status)
	o.text("period", i.period.key)
	if c.payAmount > 0 {
		if c.kind == "service_fee" {
			o.money("pay_rate", c.payAmount)
		}
		o.money("pay_amount", c.payAmount)
	}
	s.emit(typ)
}

// approve records the charge again, with its new status.
func (c *charge) approve(s *sim) {
	if c.state != inReview {
		return
	}
	c.state, c.status = approved, "approved"
	c.record(s, "charge.recorded")
}

func (c *charge) delete(s *sim) {
	c.state = deleted
	o := s.obj.reset()
	o.text("charge_id", c.id)
	if !c.billed {
		o.flag("billed_to_client", false)
	}
	o.text("invoice_id", c.invoice.knownID())
	c.invoice.writeReferences(o)
	s.emit("charge.deleted")
}
